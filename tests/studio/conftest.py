"""The studio served with a small model of every kind, really trained where that takes seconds, and tabs that let no
fault pass.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest

import sightline
from browser import browser, every_tab
from pipelines.tiny import classifier_bundle, translator_bundle
from sightline.pipelines import Classifier, Pipeline, Translator
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes

__all__ = ["browser", "every_tab"]


def taking_pairs(classifier: Classifier) -> Classifier:
    """Make a classifier take single texts and pairs, as folders of earlier versions do."""
    config = dataclasses.replace(classifier.task_config, pair=None)
    return Classifier(dataclasses.replace(classifier.bundle, task_config=config))


@pytest.fixture(scope="session")
def models(trained) -> dict[str, Pipeline]:
    """What the studio serves: ids and pipelines; those that are not trained have strong opinions of their own."""
    made = {
        "phrases": sightline.load(trained("phrases")),
        "one-way": Translator(dataclasses.replace(translator_bundle(), words=())),  # and no list of words
        "talk": sightline.load(trained("talk")),
        "gpt": sightline.load(trained("gpt")),
        "bert": sightline.load(trained("bert")),
        "classes": taking_pairs(sightline.load(trained("classes"))),
        "tags": Classifier(classifier_bundle(per_word=True)),
        "en-de": sightline.load("en-de"),
    }
    for one in made.values():
        one.model.eval()  # as loaded ones are: the server's thread and a test's must not switch dropout for each other
    return made


@pytest.fixture(scope="session")
def studio_url(models) -> Iterator[str]:
    """The address of the studio."""
    app = service(models, ServingSettings(port=0), more_routers=routes.routers, public_paths=routes.public_paths())
    with background(app) as address:
        yield address


@pytest.fixture(scope="session")
def http(studio_url) -> Iterator[httpx.Client]:
    """A client that asks what the page asks."""
    with httpx.Client(base_url=studio_url, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def pool(every_tab, studio_url):
    """The tabs of a file: those of servers of its own are closed at its end."""
    yield every_tab
    every_tab.close(but=studio_url)


@pytest.fixture
def tabs(pool, studio_url) -> Iterator[Callable]:
    """Open tabs: `tabs("#/watch?model=gpt", width=390, theme="dark")` is a page; how it fared is checked at the end.

    It may be one that showed something else before, unless it is to be `fresh`.
    """
    yield partial(pool.open, url=studio_url)
    pool.check()


@pytest.fixture
def tab(tabs):
    """One tab on a desktop, at the studio's first view."""
    return tabs()
