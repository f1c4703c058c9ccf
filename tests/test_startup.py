"""What must be quick imports nothing slow."""

import subprocess
import sys

import pytest

SLOW = ("torch", "numpy", "tokenizers", "safetensors", "rich", "jaxtyping")
AFTER = f"; import sys; print(*[name for name in {SLOW} if name in sys.modules])"


def slow_modules_after(code: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", code + AFTER], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("module", ["sightline", "sightline.storage"])
def test_import_loads_nothing_slow(module):
    assert slow_modules_after(f"import {module}") == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["info", "--help"], ["inof"], []])
def test_help_and_usage_load_nothing_slow(arguments):
    assert slow_modules_after(f"from sightline.cli.main import main; main({arguments})") == []


def test_model_needs_no_compiler_to_load(model_folder):
    """Building a model on the meta device would import torch's compiler, which takes longer than all the rest."""
    code = f"from sightline.bundle import load; load({str(model_folder)!r})"
    check = "; import sys; print('torch._dynamo' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
