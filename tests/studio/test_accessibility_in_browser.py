"""axe looks at every view, in light and dark: no serious fault."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from browser import FOLLOW

from .runs import served

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")
VIEWS = {
    "watch": "phrases",
    "walk": "phrases",
    "positions": "phrases",
    "words": "phrases",
    "write": "gpt",
    "chat": "talk",
    "fill": "bert",
    "classify": "classes",
    "runs": "phrases&runs=phrases,gpt&lapse=phrases&text=March+14&to=de",
}


@pytest.fixture(scope="module")
def axe() -> str:
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


DRAWN = {
    "watch": ".watch[aria-busy=false]",
    "walk": ".stage.drawn",
    "positions": "#curves .curve",
    "words": ".map canvas[data-names]",
    "fill": ".gaps .candidates",
    "classify": ".candidates",
    "runs": "#timelapse [aria-busy=false]",
}
"""What tells that a view is there; of the others a form does."""


@pytest.fixture(scope="module")
def url(models, trained):
    """A studio that also shows how its models were trained."""
    with served(models, trained("phrases").parent) as address:
        yield address


@pytest.fixture(scope="module")
def page(browser, axe, url):
    """A page in which axe may work, though its policy lets in no foreign script."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", bypass_csp=True)
    page = context.new_page()
    page.goto(f"{url}/#/positions")
    page.add_script_tag(content=axe)
    yield page
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(page, view, theme):
    page.emulate_media(color_scheme=theme)
    page.evaluate(FOLLOW, f"#/{view}?model={VIEWS[view]}")
    page.wait_for_selector(DRAWN.get(view, "#view section, #view form"))
    page.wait_for_function("() => document.querySelector('[aria-busy=true]') === null", timeout=120_000)
    page.wait_for_timeout(100)
    found = page.evaluate("async () => (await axe.run()).violations")
    faults = [
        (fault["id"], fault["help"], [node["html"][:160] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in SERIOUS
    ]
    assert faults == []
