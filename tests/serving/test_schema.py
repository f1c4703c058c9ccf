"""The OpenAPI schema is true, and no request, valid or invalid, breaks the server (T12).

Schemathesis reads the description and asks everything it can think of, right and wrong, over a real socket. No route
and no check is left out. Further apps are tested by adding them to `APPS`.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.tiny import chat_bundle, classifier_bundle, filler_bundle, generator_bundle, many_languages_bundle
from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.serving.http import Application, ServingSettings, create_app
from sightline.serving.service import service
from sightline.studio import routes

from .example import example_router
from .standing import standing
from .wire import PATIENCE

APPS: dict[str, Callable[[ServingSettings], Application]] = {
    "example": lambda settings: create_app(settings, routers=[example_router()]),
    "models": lambda settings: service(small_models(), settings, more_routers=routes.routers),
}

REFUSED = """
[checks.positive_data_acceptance]
expected-statuses = [200, 400, 404, 503]
"""
"""Models refuse some of what a schema allows: a text that is too long for them, an unsupported language."""


def small_models() -> dict[str, Pipeline]:
    return {"phrases": Translator(many_languages_bundle()), "talk": Chat(chat_bundle())} | {
        "gpt": Generator(generator_bundle()),
        "bert": Filler(filler_bundle()),
        "classes": Classifier(classifier_bundle()),
    }


def described(app: Application) -> int:
    """Return the number of operations in the schema."""
    return sum(len(operations) for operations in app.openapi()["paths"].values())


def examine(app: Application, folder: Path, *, examples: int) -> None:
    """Run Schemathesis with this many examples for every operation; without keys, so that it reaches all of them."""
    (folder / "schemathesis.toml").write_text(REFUSED if hasattr(app.state, "submitter") else "", encoding="utf-8")
    with standing(app) as server:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
            *("--max-examples", str(examples), "--mode", "all"),
            *("--phases", "examples,coverage,fuzzing,stateful", "--checks", "all", "--no-color"),
            # The same requests on every machine, however slow it is.
            *("--generation-deterministic", "--request-timeout", str(PATIENCE), "--suppress-health-check", "too_slow"),
        ]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    tested = re.search(r"Tested: (\d+)", run.stdout)
    assert tested is not None, run.stdout
    assert int(tested[1]) == described(app)
    assert "returned only" not in run.stdout, run.stdout  # an operation that refuses everything is not tested


@pytest.mark.parametrize("name", APPS)
def test_t12_schema_is_true_and_nothing_breaks(name, tmp_path):
    examine(APPS[name](ServingSettings(port=0)), tmp_path, examples=10)


@pytest.mark.slow
@pytest.mark.parametrize("name", APPS)
def test_t12_schema_is_true_for_a_thousand_examples_of_each(name, tmp_path):
    examine(APPS[name](ServingSettings(port=0)), tmp_path, examples=1000)
