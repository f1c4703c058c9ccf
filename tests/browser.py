"""One Chromium for the tests of a folder, and tabs that are used again: to start either takes most of the time.

Nothing here waits for a time to pass. A page is waited for by what it shows; that something does not happen is looked
at after something else that comes later, such as two frames.
"""

import base64
import os
import shutil
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
MISSING = "NO CHROMIUM: nothing was opened in any browser. Debian: apt-get install chromium"
PATIENCE = 120_000
"""Milliseconds after which something will never come, however busy the machine is."""

FOLLOW = """(address) => {
  document.activeElement?.blur();
  scrollTo(0, 0);
  history.pushState(null, "", address === "" ? location.pathname : address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}"""
"""Go to an address of the same page as a link does; what was shown is gone when this returns."""


HEARD = "() => null"
"""What a page has said reaches us only while we ask it something: this asks it for nothing."""

FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Two frames: whatever was to be measured and drawn after what has happened so far, has been."""

STYLED = """() => [...document.querySelectorAll("link[rel=stylesheet]")].every(({ sheet }) => sheet !== null)"""
"""Whether all stylesheets are there: views ask for theirs when they are first opened, and then change their sizes."""

KEEP = """() => {
  if (window.kept !== undefined) return;
  window.kept = [];
  const blobs = new Map();
  const { createObjectURL } = URL;
  URL.createObjectURL = (blob) => {
    const address = createObjectURL.call(URL, blob);
    blobs.set(address, blob);
    return address;
  };
  const { click } = HTMLAnchorElement.prototype;
  HTMLAnchorElement.prototype.click = function () {
    if (blobs.has(this.href)) kept.push({ name: this.download, blob: blobs.get(this.href) });
    else click.call(this);
  };
}"""
TAKE = """async () => {
  const { name, blob } = kept.shift();
  const letters = Array.from(new Uint8Array(await blob.arrayBuffer()), (byte) => String.fromCharCode(byte));
  return [name, btoa(letters.join(""))];
}"""


@pytest.fixture(scope="package")
def browser():
    """One Chromium for the tests of a folder: its driver leaves a running event loop behind while it lives."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright  # only here: it is slow to load

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def alone(browser):
    """A page without any network, for files."""
    context = browser.new_context(offline=True)
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def settle(page) -> None:
    """Wait until a page has its stylesheets, and has drawn once more with them: its parts are where they will stay."""
    page.wait_for_function(STYLED)
    page.evaluate(FRAMES)


def until(page, holds: Callable[[], bool]) -> None:
    """Wait for something that no selector tells: it is looked at again after every frame."""
    for _ in range(PATIENCE // 10):  # frames take longer
        if holds():
            return
        page.evaluate(FRAMES)
    raise AssertionError("it did not come true")


def hash_of(page) -> str:
    """What the address says now; `page.url` is told of it only later."""
    said: str = page.evaluate("location.hash")
    return said


def saved(page, act: Callable[[], None]) -> tuple[str, bytes]:
    """Return the name and the bytes of the file that an act saves, as the page hands it to the browser.

    It never becomes a download: of more than ten in a second Chromium silently drops the others.
    """
    page.evaluate(KEEP)
    act()
    page.wait_for_function("() => kept.length > 0")
    name, data = page.evaluate(TAKE)
    return name, base64.b64decode(data)


def is_refusal(message) -> bool:
    """Tell whether a browser only notes that a request was refused, which the page says; a lost file is none."""
    path = urlsplit(message.location.get("url", "")).path
    return message.text.startswith("Failed to load resource") and not path.startswith(("/studio/", "/page/"))


class Tab:
    """A page of a server: whatever it says, and whatever it asks others for, is a fault."""

    def __init__(self, browser, url: str, faults: list[str]):
        self.url, self.fresh = url, True
        self.context = browser.new_context(accept_downloads=True, reduced_motion="reduce")
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
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
            self.page.wait_for_selector(f":root[data-theme={theme}]")  # the page hears of another one a little later
            self.page.mouse.move(0, 0)
            self.page.evaluate(FOLLOW, address)
        self.fresh = False


class Tabs:
    """The tabs of a folder's tests."""

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

    def close(self, *, but: str | None = None) -> None:
        """Close the tabs that nobody uses, but not those of a server that goes on."""
        for tab in self.idle:
            if tab.url != but:
                tab.context.close()
        self.idle = [tab for tab in self.idle if tab.url == but]
        assert self.faults == []


@pytest.fixture(scope="package")
def every_tab(browser):
    """The tabs of a folder."""
    kept = Tabs(browser)
    yield kept
    kept.close()
