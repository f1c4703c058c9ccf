"""axe looks at every view, in light and dark: no serious fault."""

from importlib.util import find_spec
from pathlib import Path

import pytest

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
}


@pytest.fixture(scope="module")
def axe() -> str:
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(browser, studio_url, axe, view, theme):
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme=theme, reduced_motion="reduce", bypass_csp=True
    )
    page = context.new_page()
    page.goto(f"{studio_url}/#/{view}?model={VIEWS[view]}")
    page.wait_for_function("() => document.querySelector('#view section, #view form, #view canvas') !== null")
    page.wait_for_timeout(600)
    page.add_script_tag(content=axe)
    found = page.evaluate("async () => (await axe.run()).violations")
    context.close()
    faults = [
        (fault["id"], fault["help"], [node["html"][:160] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in SERIOUS
    ]
    assert faults == []
