"""One Chromium for the tests of a file, and tabs that are used again: to start either takes most of the time."""

import os
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
MISSING = "NO CHROMIUM: nothing was opened in any browser. Debian: apt-get install chromium"
PATIENCE = 20_000

FOLLOW = """(address) => {
  document.activeElement?.blur();
  scrollTo(0, 0);
  history.pushState(null, "", address === "" ? location.pathname : address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}"""
"""Go to an address of the same page as a link does; what was shown is gone when this returns."""


HEARD = "() => null"
"""What a page has said reaches us only while we ask it something: this asks it for nothing."""


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


@pytest.fixture(scope="module")
def alone(browser):
    """A page without any network, for files."""
    context = browser.new_context(offline=True)
    yield context.new_page()
    context.close()


def is_refusal(message) -> bool:
    """Tell whether a browser only notes that a request was refused, which the page says; a lost file is none."""
    path = urlsplit(message.location.get("url", "")).path
    return message.text.startswith("Failed to load resource") and not path.startswith(("/studio/", "/drawing/"))


class Tab:
    """A page of a server: whatever it says, and whatever it asks others for, is a fault."""

    def __init__(self, browser, url: str, faults: list[str]):
        self.url, self.fresh = url, True
        self.context = browser.new_context(accept_downloads=True, reduced_motion="reduce")
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: None if is_refusal(message) else faults.append(message.text))
        self.page.on("pageerror", lambda error: faults.append(str(error)))
        self.page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
        own = (f"{url}/", "data:", f"blob:{url}/")
        self.page.on("request", lambda request: None if request.url.startswith(own) else faults.append(request.url))

    def show(self, address: str, *, width: int, height: int, theme: str, motion: str) -> None:
        """Show an address."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=theme, reduced_motion=motion)
        if self.fresh:
            self.page.goto(f"{self.url}/{address}")
        else:
            self.page.mouse.move(0, 0)
            self.page.evaluate(FOLLOW, address)
        self.fresh = False


class Tabs:
    """The tabs of a file's tests."""

    def __init__(self, browser):
        self.browser = browser
        self.idle: list[Tab] = []
        self.used: list[tuple[Tab, bool]] = []
        self.faults: list[str] = []

    def open(self, address="", *, url, width=1280, height=900, theme="light", motion="reduce", fresh=False):
        """Open an address in a tab that nobody uses, or in a new one, which later tests then do not get."""
        tab = None if fresh else next((one for one in self.idle if one.url == url), None)
        if tab is None:
            tab = Tab(self.browser, url, self.faults)
        else:
            self.idle.remove(tab)
        self.used.append((tab, fresh))
        tab.show(address, width=width, height=height, theme=theme, motion=motion)
        return tab.page

    def check(self) -> None:
        """Let go of the tabs of a test, and look how they fared."""
        for tab, fresh in self.used:
            if not tab.page.is_closed():
                tab.page.evaluate(HEARD)
            if fresh or tab.page.is_closed():
                tab.context.close()
            else:
                self.idle.append(tab)
        found, self.used = list(self.faults), []
        self.faults.clear()
        assert found == []


@pytest.fixture(scope="module")
def pool(browser) -> Iterator[Tabs]:
    """The tabs of a file."""
    kept = Tabs(browser)
    yield kept
    for tab in kept.idle:
        tab.context.close()
    assert kept.faults == []
