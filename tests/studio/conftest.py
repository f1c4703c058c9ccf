"""The studio served with a small model of every kind, and tabs that let no fault pass."""

import os
import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from pipelines.tiny import (
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
    translator_bundle,
)
from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.serving import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
MISSING = "NO CHROMIUM: the studio was not opened in any browser. Debian: apt-get install chromium"


@pytest.fixture(scope="session")
def models() -> dict[str, Pipeline]:
    """What the studio serves: ids and pipelines."""
    return {
        "phrases": Translator(many_languages_bundle()),
        "one-way": Translator(translator_bundle()),
        "talk": Chat(chat_bundle()),
        "gpt": Generator(generator_bundle()),
        "bert": Filler(filler_bundle()),
        "classes": Classifier(classifier_bundle()),
        "tags": Classifier(classifier_bundle(per_word=True)),
    }


@pytest.fixture(scope="session")
def studio_url(models) -> Iterator[str]:
    """The address of the studio."""
    app = service(models, ServingSettings(port=0), more_routers=site.routers, public_paths=site.public_paths())
    with background(app) as address:
        yield address


@pytest.fixture(scope="session")
def http(studio_url) -> Iterator[httpx.Client]:
    """A client that asks what the page asks."""
    with httpx.Client(base_url=studio_url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    """One Chromium for the tests of a file: its driver leaves a running event loop behind while it lives."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright  # only here: it is slow to load

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


def is_refusal(message) -> bool:
    """Tell whether a browser only notes that a request was refused, which the page says; a lost file is none."""
    path = urlsplit(message.location.get("url", "")).path
    return message.text.startswith("Failed to load resource") and not path.startswith(("/studio/", "/drawing/"))


@pytest.fixture
def tabs(browser, studio_url) -> Iterator[Callable]:
    """Open tabs: `tabs("#/watch?model=gpt", width=390, theme="dark")` is a page; how it fared is checked at the end."""
    contexts, faults = [], []

    def open_tab(address="", *, width=1280, height=900, theme="light", motion="reduce", url=studio_url):
        view = {"viewport": {"width": width, "height": height}, "color_scheme": theme, "reduced_motion": motion}
        contexts.append(browser.new_context(**view, accept_downloads=True))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: None if is_refusal(message) else faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
        own = (f"{url}/", "data:", f"blob:{url}/")
        page.on("request", lambda request: None if request.url.startswith(own) else faults.append(request.url))
        page.goto(f"{url}/{address}")
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def tab(tabs):
    """One tab on a desktop, at the studio's first view."""
    return tabs()
