"""The view of positions: what is drawn and said are the codes of the model."""

import json
import math

import numpy as np
import pytest

from browser import hash_of, settle
from pipelines.tiny import generator_bundle, translator_bundle
from sightline.model.positions import rotation_table
from sightline.pipelines import Generator, Translator
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes
from sightline.tracing.vectors import cosine_similarities, position_encodings

pytestmark = pytest.mark.browser

PIXELS = """async (selector) => {
  const { palette } = await import("/page/theme.js");
  const canvas = document.querySelector(selector);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return { width: canvas.width, height: canvas.height, data: [...data], table: palette().signed };
}"""


def number(text: str) -> float:
    """The last number of a sentence."""
    return float(text.split()[-1].replace("−", "-"))


def near(value: float):
    """What three significant digits can tell of a number."""
    return pytest.approx(float(value), rel=0.006, abs=5e-7)


def opened(tabs, address: str, **options):
    page = tabs(f"#/positions?{address}", **options)
    page.wait_for_selector("#encodings .grid-frame[aria-label]")
    page.wait_for_selector("#curves .curve")
    settle(page)
    return page


def point(page, selector: str, row: int, column: int, shape: tuple[int, int]) -> None:
    canvas = page.locator(f"{selector} .grid-frame canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(
        box["x"] + (column + 0.5) / shape[1] * box["width"], box["y"] + (row + 0.5) / shape[0] * box["height"]
    )


def drawn_colors(page, selector: str, expected: np.ndarray, reach: float) -> None:
    seen = page.evaluate(PIXELS, f"{selector} canvas")
    assert (seen["height"], seen["width"]) == expected.shape
    pixels = np.array(seen["data"]).reshape(*expected.shape, 4)[..., :3]
    level = np.clip(np.floor((expected.astype(np.float64) / reach + 1) * 127.5 + 0.5), 0, 255).astype(int)
    table = np.array(seen["table"])
    # A number in the middle between two colors may be either, for Python counts with other digits.
    around = np.stack([table[np.clip(level + by, 0, 255)] for by in (-1, 0, 1)])
    assert (around == pixels).all(-1).any(0).all()
    assert (table[level] == pixels).all(-1).mean() > 0.99


@pytest.mark.parametrize("name", ["phrases", "gpt"])
def test_matrices_are_the_codes_and_their_cosines(tabs, models, name):
    codes = position_encodings(models[name], n=20)
    page = opened(tabs, f"model={name}&n=20")
    drawn_colors(page, "#encodings", codes, float(np.abs(codes).max()))
    drawn_colors(page, "#similarities", cosine_similarities(codes), 1.0)


def test_pointing_says_the_number(tabs, models):
    codes = position_encodings(models["gpt"], n=24)
    page = opened(tabs, "model=gpt&n=24")
    for row, column in [(0, 0), (7, 3), (23, 15)]:
        point(page, "#encodings", row, column, codes.shape)
        said = page.locator("#encodings .readout").inner_text()
        assert said.startswith(f"Position {row}, dimension {column}")
        assert number(said) == near(codes[row, column])
    point(page, "#similarities", 3, 11, (24, 24))
    assert number(page.locator("#similarities .readout").inner_text()) == near(cosine_similarities(codes)[3, 11])


def test_arrows_walk_and_enter_chooses(tabs, models):
    page = opened(tabs, "model=phrases&n=16&dimensions=0")
    page.locator("#encodings .grid-frame").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    said = page.locator("#encodings .readout").inner_text()
    assert said.startswith("Position 1, dimension 1 ")
    assert number(said) == near(math.cos(1))
    assert "dimensions=0%2C1" in hash_of(page)


def test_curves_are_the_chosen_columns(tabs, models):
    codes = position_encodings(models["phrases"], n=30)
    page = opened(tabs, "model=phrases&n=30&dimensions=2")
    point(page, "#encodings", 4, 5, codes.shape)
    page.mouse.down()
    page.mouse.up()
    curves = page.locator("#curves .curve")
    assert curves.count() == 2
    for curve, depth in zip(curves.all(), (2, 5), strict=True):
        pairs = [pair.split() for pair in curve.get_attribute("d")[1:].split("L")]
        assert len(pairs) == 30
        heights = np.array([float(y) for _, y in pairs])
        middle, half = 8 + (290 - 30) / 2, (290 - 30) / 2
        np.testing.assert_allclose((middle - heights) / half, codes[:, depth] / np.abs(codes).max(), atol=1e-3)


def test_slider_moves_the_last_curve(tabs, models):
    codes = position_encodings(models["phrases"], n=48)
    page = opened(tabs, "model=phrases&n=48&dimensions=0,2")
    page.locator("#which-dimension").fill("9")
    assert "dimensions=0%2C9" in hash_of(page)
    page.locator("summary").click()
    page.wait_for_selector(".numbers tbody tr")  # the table is filled after it is opened
    rows = page.locator(".numbers tbody tr").all()
    assert len(rows) == 48
    cells = [[number(text) for text in row.locator("td").all_text_contents()] for row in rows]
    expected = np.stack([codes[:, 0], codes[:, 9], cosine_similarities(codes)[24]], axis=1)
    np.testing.assert_allclose(cells, expected, rtol=0.006, atol=5e-7)


def test_another_position_is_compared_with_all(tabs, models):
    alike = cosine_similarities(position_encodings(models["gpt"], n=48))
    page = opened(tabs, "model=gpt&n=48&row=5")
    assert number(page.locator("#row .readout").inner_text()) == near(1)
    page.locator("#which-row").fill("30")
    page.locator("#row svg").scroll_into_view_if_needed()
    box = page.locator("#row svg").bounding_box()
    page.mouse.move(box["x"] + 38, box["y"] + 100)
    said = page.locator("#row .readout").inner_text()
    assert said.startswith("Position 30 and 0")
    assert number(said) == near(alike[30, 0])


def test_link_restores_what_was_chosen(tabs):
    page = opened(tabs, "model=phrases")
    page.locator("#how-many").fill("12")
    again = opened(tabs, hash_of(page).split("?", 1)[1])
    assert again.locator("#how-many").input_value() == "12"
    assert again.locator("#encodings canvas").evaluate("canvas => canvas.height") == 12


def test_more_positions_than_a_model_has_are_not_offered(tabs):
    page = opened(tabs, "model=gpt&n=900")
    assert page.locator("#how-many").get_attribute("max") == "256"
    assert page.locator("#encodings canvas").evaluate("canvas => canvas.height") == 256


def test_saved_numbers_are_the_codes(tabs, models):
    """Really saved: in the studio's other tests the page only hands its files over."""
    page = opened(tabs, "model=gpt&n=6", fresh=True)
    page.locator("#encodings").get_by_role("button", name="Save", exact=True).click()
    with page.expect_download() as caught:
        page.locator("#encodings").get_by_role("button", name="Save as JSON").click()
    numbers = json.loads(caught.value.path().read_text())
    np.testing.assert_allclose(numbers["values"], position_encodings(models["gpt"], n=6), rtol=1e-4)
    with page.expect_download() as caught:
        page.locator("#encodings").get_by_role("button", name="Save as SVG").click()
    assert "<image" in caught.value.path().read_text()


def test_rotary_positions_are_told_truly(tabs):
    """Nothing is added: the codes are the sines and cosines of the angles, and the page says so."""
    turning = Generator(generator_bundle(positions="rope"))
    app = service(
        {"turning": turning, "none": Translator(translator_bundle(positions="none"))},
        ServingSettings(port=0),
        more_routers=routes.routers,
        public_paths=routes.public_paths(),
    )
    with background(app) as url:
        page = opened(tabs, "model=turning&n=20", url=url, fresh=True)
        assert "Nothing is added" in page.locator("#encodings .explanation").inner_text()
        cosine, sine = rotation_table(20, turning.model.config.rope)
        codes = np.stack((sine[:20], cosine[:20]), axis=-1).reshape(20, -1)
        drawn_colors(page, "#encodings", codes, float(np.abs(codes).max()))
        point(page, "#encodings", 3, 0, codes.shape)
        assert number(page.locator("#encodings .readout").inner_text()) == near(math.sin(3))
        without = tabs("#/positions?model=none", url=url, fresh=True)
        without.wait_for_selector(".problem:not(:empty)")
        assert "no position encodings" in without.locator(".problem").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_page_never_scrolls_sideways(tabs, width):
    page = opened(tabs, "model=phrases&n=48", width=width, theme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
