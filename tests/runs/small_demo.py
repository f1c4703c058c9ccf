"""The demo with a phrasebook and a model so small that it takes a second."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sightline.data.corpora import builtin
from sightline.runs.demo import demo
from sightline.training.report import SilentReporter

from .small import TINY

SMALL = {
    **TINY, "training.snapshots": False, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1,
    "training.warmup_steps": 1,
}  # fmt: skip


@contextmanager
def few_phrases() -> Iterator[None]:
    """Let the built-in phrasebook be a small one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtin, "N_TRAIN", 150)
        patch.setattr(builtin, "N_UNSEEN", 10)
        yield


def small_demo(folder: Path) -> Path:
    """Do the demo, small, where no figures can be drawn (its page needs none)."""
    with few_phrases(), pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        demo(folder, SilentReporter(), overrides=SMALL)
    return folder
