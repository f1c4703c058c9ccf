"""What the server says of its interface is true, and nothing the interface allows or forbids breaks it (T12).

Schemathesis reads the description and asks everything it can think of, right and wrong, over a real socket. No route
and no check is left out. Further apps are tested by adding them to `APPS`.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sightline.serving import Application, ServingSettings, background, create_app

from .example import example_router

KEY = "correct-horse-battery"

APPS: dict[str, Callable[[ServingSettings], Application]] = {
    "example": lambda settings: create_app(settings, routers=[example_router()]),
}


def described(app: Application) -> int:
    """Return how many operations the description has."""
    return sum(len(operations) for operations in app.openapi()["paths"].values())


def examine(app: Application, folder: Path, *, examples: int) -> None:
    """Let Schemathesis ask the app, with a key, this often for every operation."""
    with background(app) as url:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
            *("--header", f"Authorization: Bearer {KEY}", "--max-examples", str(examples), "--mode", "all"),
            *("--phases", "examples,coverage,fuzzing,stateful", "--checks", "all", "--seed", "1", "--no-color"),
        ]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    tested = re.search(r"Tested: (\d+)", run.stdout)
    assert tested is not None, run.stdout
    assert int(tested[1]) == described(app)


@pytest.mark.parametrize("name", APPS)
def test_t12_description_is_true_and_nothing_breaks(name, tmp_path):
    examine(APPS[name](ServingSettings(port=0, keys=(KEY,))), tmp_path, examples=10)


@pytest.mark.slow
@pytest.mark.parametrize("name", APPS)
def test_t12_description_is_true_for_a_thousand_examples_of_each(name, tmp_path):
    examine(APPS[name](ServingSettings(port=0, keys=(KEY,))), tmp_path, examples=1000)
