"""The public API: what `sightline` exports, where its page says so, and that importing it costs nothing."""

import subprocess
import sys

import pytest
from making.api import GROUPS, METHODS, PAGE, build_page

import sightline


def test_every_public_name_is_there_and_listed_in_order():
    assert sightline.__all__ == sorted(sightline.__all__)
    assert {name for names in sightline.LAZY.values() for name in names} | {"__version__"} == set(sightline.__all__)
    assert set(sightline.__all__) <= set(dir(sightline))
    assert [name for name in sightline.__all__ if getattr(sightline, name, None) is None] == []


def test_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'sightline' has no attribute 'lode'"):
        sightline.lode  # noqa: B018


def test_page_describes_every_public_name():
    described = [name for names in GROUPS.values() for name in names]
    assert sorted([*described, "__version__"]) == sightline.__all__
    assert set(METHODS) <= set(described)


def test_page_is_made_from_the_docstrings():
    assert PAGE.read_text(encoding="utf-8") == build_page(), "run `make docs-api`"


TORCH_FREE = [
    "sightline", "sightline.tasks", "sightline.serving.http", "sightline.serving.api", "sightline.data.tokenizers",
    "sightline.decoding.settings", "sightline.model", "sightline.model.config", "sightline.model.registry",
    "sightline.bundle", "sightline.serving.scheduling.scheduler", "sightline.serving.api.openai_generation",
    "sightline.serving.api.libretranslate", "sightline.serving.api.tasks", "sightline.serving.api.trace",
]  # fmt: skip


@pytest.mark.parametrize("module", TORCH_FREE)
def test_module_is_imported_without_torch(module):
    """The front process of a server and the start of a native engine rest on it."""
    code = f"import sys, {module}; dir({module}); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
