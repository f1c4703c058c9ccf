"""axe looks at every view, and once more at its colors in the dark: no serious fault."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from browser import FOLLOW, PATIENCE, settle

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
    "runs": "phrases&runs=phrases,gpt&timelapse=phrases&text=March+14&to=de",
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
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{url}/#/positions")
    page.add_script_tag(content=axe)
    yield page
    context.close()


def faults(page, rules: list[str] | None = None) -> list[tuple[str, str, list[str]]]:
    """What axe finds, by some rules or all."""
    settle(page)
    found = page.evaluate("async (rules) => (await axe.run(rules ? { runOnly: rules } : {})).violations", rules)
    return [
        (fault["id"], fault["help"], [node["html"][:160] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(page, view):
    """The theme changes colors and nothing else, so that in the dark only these are looked at again."""
    page.emulate_media(color_scheme="light")
    page.evaluate(FOLLOW, f"#/{view}?model={VIEWS[view]}")
    page.wait_for_selector(DRAWN.get(view, "#view section, #view form"))
    page.wait_for_function("() => document.querySelector('[aria-busy=true]') === null")
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("[data-theme=dark]")
    assert faults(page, ["color-contrast"]) == []
