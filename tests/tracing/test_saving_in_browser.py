"""What one saves of a view in a real browser: a picture that needs no page, and the numbers it shows."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from browser import PATIENCE
from browser import saved as file_of

from .drawn import HOSTILE, RIGHT_TO_LEFT, drawn_trace
from .test_page_in_browser import HEAD, Opened, opened

__all__ = ["opened"]

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = ["sentence", "lines", "head-grid", "decoding-steps", "alignment", "tree", "logit-lens", "head-ablation"]


def button(shown: Opened, view: str, kind: str):
    """The button that saves a view: it is there once the choice of kinds is opened."""
    part = shown.page.locator(f".{view}-view")
    if not part.locator(".save-kinds").is_visible():
        part.locator(".save > button").click()
    return part.locator(f"[aria-label='Save as {kind}']")


def saved(shown: Opened, view: str, kind: str) -> bytes:
    """Save a view as one does: open its button, choose a kind, take the file."""
    name, data = file_of(shown.page, button(shown, view, kind).click)
    assert name.startswith("sightline-transformer-"), name
    assert name.endswith(f".{kind.lower()}"), name
    return data


def parsed(picture: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 (our own)


def texts(picture: bytes) -> list[str]:
    return [node.text for node in parsed(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", ["SVG", "PNG", "JSON"])
def test_what_is_saved_comes_as_a_download(opened, kind):
    """Here the browser really saves it; the other tests take it as it is handed to the browser."""
    shown = opened(drawn_trace(6))
    with shown.page.expect_download() as coming:
        button(shown, "lines", kind).click()
    name = f"sightline-transformer-decoder.cross-attention-head-1.0-the-unlikely-cat-sat-on.{kind.lower()}"
    assert coming.value.suggested_filename == name
    assert coming.value.path().read_bytes() == saved(shown, "lines", kind)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_saved_in_three_ways(opened, theme):
    shown = opened(drawn_trace(6), theme=theme)
    for view in VIEWS:
        picture = saved(shown, view, "SVG")
        assert parsed(picture).tag == f"{SVG}svg", view
        assert len(texts(picture)) > 3, view
        assert saved(shown, view, "PNG").startswith(b"\x89PNG\r\n"), view
        assert json.loads(saved(shown, view, "JSON")), view


@pytest.fixture(scope="module")
def pictures(alone, tmp_path_factory) -> dict[str, bytes]:
    """All views, as they are saved of one trace."""
    file, trace = tmp_path_factory.mktemp("page") / "page.html", drawn_trace(6)
    found = {}
    for picture, views in (("lines", VIEWS), ("matrix", ["matrix"])):
        shown = Opened(alone, file, trace, address=f"#picture={picture}")
        found |= {view: saved(shown, view, "SVG") for view in views}
        shown.end()
    return found


@pytest.mark.parametrize("view", [*VIEWS, "matrix"])
def test_saved_picture_needs_no_page(alone, pictures, tmp_path, view):
    picture = pictures[view]
    text = picture.decode()
    assert not re.search(r"\bclass=|\bstyle=|<style|<script|<foreignObject|var\(|url\(|color-mix", text)
    assert all(reference.startswith("data:image/png;") for reference in re.findall(r'href="([^"]*)"', text))
    file = tmp_path / "alone.svg"
    file.write_bytes(picture)
    page = alone.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    outside = page.evaluate(
        """() => {
          const { width, height } = document.documentElement.viewBox.baseVal;
          const boxes = [...document.querySelectorAll("text, rect, path")].map((node) => [node.getBoundingClientRect(), node.textContent]);
          return boxes.filter(([box]) => box.left < -1 || box.top < -1 || box.right > width + 1 || box.bottom > height + 1).map(([, text]) => text);
        }"""  # noqa: E501
    )
    page.close()
    assert outside == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_saved_numbers_are_those_of_the_trace(opened, view):
    trace = drawn_trace(12)
    shown = opened(trace, address=f"#heads={HEAD}.2&picture={view}")
    numbers = json.loads(saved(shown, view, "JSON"))
    assert numbers["heads"] == ["Cross-attention, layer 1, head 2"]
    assert numbers["columns"] == [token.text for token in trace.source.tokens]
    np.testing.assert_allclose(numbers["weights"], trace.attention(HEAD)[2], rtol=1e-4)


def test_saved_matrix_has_its_names_as_texts_and_its_cells_as_shapes(opened):
    trace = drawn_trace(5)
    picture = parsed(saved(opened(trace, address="#picture=matrix"), "matrix", "SVG"))
    assert {"·cat", "</s>"} <= {node.text for node in picture.iter(f"{SVG}text")}
    assert len(list(picture.iter(f"{SVG}rect"))) >= 25
    assert not list(picture.iter(f"{SVG}image"))


def test_saved_picture_holds_what_was_scrolled_away(opened):
    shown = opened(drawn_trace(200), width=390, height=844)
    assert len(texts(saved(shown, "lines", "SVG"))) >= 400
    assert len(texts(saved(shown, "sentence", "SVG"))) >= 400


@pytest.mark.parametrize("words", [HOSTILE, RIGHT_TO_LEFT], ids=["hostile", "right-to-left"])
def test_strange_texts_are_saved_as_texts(opened, words):
    shown = opened(drawn_trace(13, words))
    for view in ("sentence", "lines", "decoding-steps", "tree", "logit-lens"):
        picture = parsed(saved(shown, view, "SVG"))
        assert not list(picture.iter(f"{SVG}script")), view
        assert not list(picture.iter(f"{SVG}image")), view


def test_a_notebook_may_save_too(browser, tmp_path):
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{drawn_trace(5)._repr_html_()}", encoding="utf-8")
    context = browser.new_context(offline=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator(".lines-view .save > button").click()
    with page.expect_download() as coming:
        frame.locator(".lines-view [aria-label='Save as PNG']").click()
    assert coming.value.path().read_bytes().startswith(b"\x89PNG")
    context.close()
