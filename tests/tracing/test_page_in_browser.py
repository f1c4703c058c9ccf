"""The page of a trace in a real browser with the network off: silent, alone, and true to the numbers."""

import dataclasses
import math
import re
from itertools import pairwise

import numpy as np
import pytest

from browser import FRAMES, HEARD, PATIENCE
from sightline.tracing import Trace
from sightline.tracing import page as trace_page

from .drawn import HOSTILE, PLAIN, RIGHT_TO_LEFT, UNSPACED, drawn_trace
from .handmade import continuation
from .models import GENERATORS, pipeline, text_for, trace_options

pytestmark = pytest.mark.browser

HEAD = "decoder.1.cross_attention"

CELLS = """([rows, columns]) => {
  const canvas = document.querySelector(".matrix .cells");
  const [left, top, step] = canvas.dataset.plan.split(" ").map(Number);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const inside = step < 4 ? 0 : 2;
  const colors = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = 4 * ((top + row * step + inside) * canvas.width + left + column * step + inside);
      colors.push(pixels[at], pixels[at + 1], pixels[at + 2]);
    }
  }
  return colors.join(" ");
}"""


class Opened:
    """A page of a trace, and all it said and asked for."""

    def __init__(self, page, file, trace: Trace, *, width=1280, height=900, theme="light", address=""):
        self.trace, self.page = trace, page
        file.write_text(trace_page.build_page(trace, title="a title"), encoding="utf-8")
        self.said: list[str] = []
        self.asked: list[str] = []
        page.goto("about:blank")  # what was there before has nothing more to say
        self.hears = {
            "console": lambda message: self.said.append(message.text),
            "pageerror": lambda error: self.said.append(str(error)),
            "dialog": lambda dialog: (self.said.append("dialog"), dialog.dismiss()),
            "request": lambda request: self.asked.append(request.url),
        }
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        for event, hear in self.hears.items():
            page.on(event, hear)
        page.goto(f"{file.as_uri()}{address}")
        page.wait_for_selector("footer")
        if trace.attentions:
            page.wait_for_selector("#attention svg .unit, #attention .cells[data-plan]")  # drawn once it is measured

    def end(self) -> None:
        """Let the page be somebody else's."""
        if not self.page.is_closed():
            self.page.evaluate(HEARD)
        for event, hear in self.hears.items():
            self.page.remove_listener(event, hear)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()


@pytest.fixture
def opened(alone, tmp_path):
    pages: list[Opened] = []

    def open_page(trace: Trace, **settings) -> Opened:
        page = alone.context.new_page() if pages else alone
        pages.append(Opened(page, tmp_path / f"{len(pages)}.html", trace, **settings))
        return pages[-1]

    yield open_page
    for one in pages:
        one.end()
        if one.page is not alone:
            one.page.close()
        assert one.said == []
        assert [url for url in one.asked if not url.startswith("file:///")] == []
        assert len(one.asked) == 1


def test_a_long_matrix_stays_in_its_place(opened):
    """One cell is a pixel at least: what is wider than the page scrolls, and paints over nothing."""
    shown = opened(drawn_trace(400), width=390, address="#picture=matrix")
    frame = shown.page.locator("#attention .matrix")
    inner, outer = frame.evaluate("(one) => [one.scrollWidth, one.clientWidth]")
    assert inner > outer
    assert frame.evaluate("(one) => getComputedStyle(one).overflowX") == "auto"
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    frame.focus()
    for _ in range(2):
        shown.page.keyboard.press("ArrowLeft")
    assert shown.count("#attention .readout .query") == 1


def short(number: float) -> str:
    """Three significant digits, written independently of text.js."""
    if number == 0:
        return "0"
    size = abs(number)
    digits = f"{size:#.3g}".rstrip(".")
    if size < 1e-4:
        digits = re.sub(r"e-0*", "e−", f"{size:.2e}")
    return ("−" if number < 0 else "") + digits


class Shown:
    """Equals what a page shows of a number: with three digits, of the six that it was given of it or of its logarithm.

    Those six may round to another third digit than all of them do, the more so where many of them are added up.
    """

    def __init__(self, number: float) -> None:
        self.texts = {short(number * scale) for scale in (1 - 3e-4, 1, 1 + 3e-4)}

    def __eq__(self, text: object) -> bool:
        return text in self.texts

    def __repr__(self) -> str:
        return " or ".join(sorted(self.texts))

    def stands_in(self, text: str) -> bool:
        return any(one in text for one in self.texts)


def stops(name: str, *, dark: bool) -> np.ndarray:
    """The colors of a scale, read from the stylesheet."""
    found = re.findall(rf"--{name}: ([^;]+);", trace_page.stylesheet())[int(dark)]
    return np.array([[int(part.strip()[at : at + 2], 16) for at in (1, 3, 5)] for part in found.split(",")], float)


def colors(weights: np.ndarray, *, dark: bool = False) -> np.ndarray:
    """What each cell should look like."""
    ends = stops("weights", dark=dark)
    at = np.floor(weights * 255 + 0.5) / 255 * (len(ends) - 1)
    return np.stack([np.interp(at, np.arange(len(ends)), ends[:, channel]) for channel in range(3)], axis=-1)


def cells(opened: Opened, rows: int, columns: int) -> np.ndarray:
    """The color of each cell of the matrix that is on the screen, near its upper left corner."""
    numbers = opened.page.evaluate(CELLS, [rows, columns]).split(" ")
    return np.array(numbers, float).reshape(rows, columns, 3)


@pytest.mark.parametrize(
    ("n", "texts"),
    [(5, PLAIN), (30, PLAIN), (200, PLAIN), (9, RIGHT_TO_LEFT), (12, UNSPACED), (13, HOSTILE)],
    ids=["5", "30", "200", "right-to-left", "unspaced", "hostile"],
)
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_page_shows_every_token_and_stays_in_its_width(opened, n, texts, size):
    shown = opened(drawn_trace(n, texts), width=size[0], height=size[1])
    assert shown.count(".strip[data-sequence=source] .token") == n
    assert shown.count(".strip[data-sequence=target] .token") == n
    assert shown.count("#attention svg .unit") == 2 * n
    assert shown.count(".tile") == 24
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert shown.count("main img, main script") == 0
    shown.page.keyboard.press("w")
    assert shown.count(".strip[data-sequence=source] .token") == len(shown.trace.source.words())
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", ["transformer", "languages", "chat", "gpt", "llama", "filler", "classifier", "tagger"])
def test_every_family_is_drawn(opened, name):
    settings = {"beam_size": 2, "hypotheses": True} if name in GENERATORS else {}
    trace = pipeline(name).trace(text_for(name), head_ablation=True, **settings, **trace_options(name))
    shown = opened(trace)
    for key in "wmwl":
        shown.page.keyboard.press(key)
    for _ in trace.steps:
        shown.page.keyboard.press("ArrowRight")
    assert f"{len(trace.steps)} of {len(trace.steps)}" in shown.text(".step-label")
    for tile in range(shown.count(".tile")):
        shown.page.locator(".tile").nth(tile).click()
    assert shown.count("#tree") == int(trace.tree is not None)
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("n", [5, 30, 200])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_matrix_has_the_colors_of_the_weights(opened, n, theme):
    trace = drawn_trace(n)
    shown = opened(trace, theme=theme, address=f"#heads={HEAD}.2&picture=matrix")
    expected = colors(trace.attention(HEAD)[2], dark=theme == "dark")
    assert np.abs(cells(shown, n, n) - expected).max() <= 2  # a step of the scale


def test_several_heads_are_drawn_as_their_mean(opened):
    trace = drawn_trace(5)
    shown = opened(trace, address=f"#heads={HEAD}.1,{HEAD}.2&picture=matrix")
    assert np.abs(cells(shown, 5, 5) - colors(trace.attention(HEAD)[1:3].mean(axis=0))).max() <= 2
    assert shown.text("#attention-title").startswith("Mean of 2 heads")


def test_cell_says_its_number(opened):
    trace = drawn_trace(5)
    shown = opened(trace, address=f"#heads={HEAD}.1&picture=matrix")
    shown.page.locator(".matrix").focus()
    weights = trace.attention(HEAD)[1]
    shown.page.keyboard.press("ArrowRight")
    for column, number in enumerate(weights[0]):
        assert shown.text("#attention .readout .number") == short(number), column
        shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("ArrowDown")
    assert shown.text("#attention .readout .number") == short(weights[1, 4])


@pytest.mark.parametrize("unit", ["token", "word"])
def test_table_behind_the_matrix_holds_its_numbers(opened, unit):
    trace = drawn_trace(12)
    shown = opened(trace, address=f"#heads={HEAD}.3&picture=matrix&unit={unit}")
    shown.page.locator("#attention summary").click()
    shown.page.wait_for_selector("#attention table")
    weights = trace.attention(HEAD)[3] if unit == "token" else trace.words().attention[HEAD][3]
    numbers = [float(text.replace("−", "-")) for text in shown.texts("#attention table tbody td")]
    np.testing.assert_allclose(numbers, weights.ravel(), rtol=0.006)


def test_lines_are_as_thick_as_their_weights(opened):
    trace = drawn_trace(5)
    shown = opened(trace, address=f"#heads={HEAD}.0&step=2")
    read = "paths => paths.map(p => [+p.dataset.row, +p.dataset.column, +p.getAttribute('stroke-width')])"
    drawn = shown.page.eval_on_selector_all("#attention .all-lines path", read)
    weights = trace.attention(HEAD)[0]
    assert {(row, column) for row, column, _ in drawn} == set(zip(*np.nonzero(weights >= 0.01), strict=True))
    for row, column, width in drawn:
        assert width == pytest.approx(0.6 + 7 * weights[row, column], abs=0.001)
    lit = shown.page.eval_on_selector_all("#attention .selected-lines path", read)
    assert {row for row, _, _ in lit} == {1}


def test_long_texts_draw_the_heaviest_lines_and_say_so(opened):
    trace = drawn_trace(200)
    shown = opened(trace, address=f"#heads={HEAD}.0")
    count = shown.count("#attention .all-lines path")
    assert 200 < count <= 300
    heaviest = np.sort(trace.attention(HEAD)[0].ravel())[::-1][:count]
    note = shown.text("#attention .note")
    assert note.startswith(f"The {count} largest of 40,000 weights")
    assert float(re.search(r"([\d.]+) %", note)[1]) == pytest.approx(100 * heaviest.sum() / 200, rel=0.01)


def test_decoding_steps_show_the_candidates_of_each_step(opened):
    trace = drawn_trace(5)
    shown = opened(trace)
    for number, step in enumerate(trace.steps):
        assert f"{number + 1} of 5" in shown.text(".step-label")
        expected = [short(candidate.probability) for candidate in step.candidates]
        assert shown.texts(".candidates-now .candidate .number") == expected
        bars = shown.page.eval_on_selector_all(
            ".candidates-now .bar", "bars => bars.map(b => +b.style.getPropertyValue('--share'))"
        )
        np.testing.assert_allclose(bars, [candidate.probability for candidate in step.candidates], rtol=1e-5)
        looks = np.sort(trace.attention(HEAD)[0, number])[::-1][:4]
        assert shown.texts(".attended .number") == [short(weight) for weight in looks]
        shown.page.keyboard.press("ArrowRight")
    assert shown.page.locator("[aria-label='Next step']").is_disabled()


def test_keys_step_play_and_go_back(opened):
    shown = opened(drawn_trace(5))
    press = shown.page.keyboard.press
    press("ArrowRight")
    press("ArrowRight")
    press("ArrowLeft")
    assert "2 of 5" in shown.text(".step-label")
    shown.page.evaluate("() => { window.setInterval = (act) => { window.tick = act; }; }")
    press("Space")
    for step in (3, 4, 5):
        assert shown.text(".play") == "Pause"
        shown.page.evaluate("tick()")
        assert f"{step} of 5" in shown.text(".step-label")
    shown.page.evaluate("tick()")
    assert shown.text(".play") == "Play"
    press("m")
    shown.page.locator(".matrix").wait_for()
    press("l")
    shown.page.locator(".matrix").wait_for(state="hidden")
    press("w")
    assert shown.page.locator("[data-value=word]").get_attribute("aria-pressed") == "true"
    shown.page.wait_for_url(re.compile("step=5&unit=word"))
    press("Escape")
    assert shown.page.evaluate("document.activeElement.className") == "tile"


def test_heads_are_opened_by_click_added_by_shift_and_walked_by_arrows(opened):
    shown = opened(drawn_trace(5))
    tiles = shown.page.locator(".tile")
    tiles.nth(0).click()
    assert shown.text("#attention-title") == "Encoder self-attention, layer 0, head 0"
    tiles.nth(1).click(modifiers=["Shift"])
    assert shown.text("#attention-title").startswith("Mean of 2 heads")
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    assert shown.text("#attention-title") == "Encoder self-attention, layer 1, head 1"


def test_pointing_at_a_token_follows_it_everywhere(opened):
    trace = drawn_trace(6)
    shown = opened(trace, address="#heads=decoder.1.self_attention.0")
    shown.page.locator(".strip[data-sequence=target] .token").nth(2).hover()
    assert shown.page.locator(".strip[data-sequence=target] .token.is-query").get_attribute("data-index") == "2"
    # What is written third is what the decoder reads fourth.
    assert shown.page.locator("#attention .unit.is-query").first.get_attribute("data-unit") == "3"


def test_hostile_texts_are_shown_as_texts(opened):
    shown = opened(drawn_trace(13, HOSTILE))
    tokens = shown.texts(".strip[data-sequence=source] .token")
    assert tokens[0] == "<img src=x onerro…"
    assert tokens[3] == "U+202Eevil"
    assert tokens[4] == "U+2028"
    assert tokens[11] == "∅"


def test_right_to_left_texts_run_from_the_right(opened):
    shown = opened(drawn_trace(6, RIGHT_TO_LEFT))
    lefts = shown.page.eval_on_selector_all(
        ".strip[data-sequence=source] .token", "chips => chips.map(chip => chip.getBoundingClientRect().left)"
    )
    assert all(first > second for first, second in pairwise(lefts))


def test_alignment_never_comes_without_its_warning(opened):
    trace = drawn_trace(8)
    shown = opened(trace)
    shown.page.locator("#alignment").scroll_into_view_if_needed()
    shown.page.wait_for_selector("#alignment svg path")
    assert shown.count("#alignment svg path") == len(trace.alignment.links)
    assert shown.text("#alignment .warning") == trace.alignment.warning
    assert shown.page.locator("#alignment .warning").is_visible()


def test_effects_of_ablation_are_the_numbers_of_the_trace(opened):
    trace = drawn_trace(5)
    shown = opened(trace)
    numbers = [float(text.replace("−", "-")) for text in shown.texts("#head-ablation td.number")]
    np.testing.assert_allclose(numbers, trace.head_ablation.total.ravel(), rtol=0.006)
    shown.page.locator("#head-ablation input").check()
    shown.page.keyboard.press("Escape")
    numbers = [float(text.replace("−", "-")) for text in shown.texts("#head-ablation td.number")]
    np.testing.assert_allclose(numbers, trace.head_ablation.steps[:, :, 0].ravel(), rtol=0.006)


def test_logit_lens_shows_the_top_tokens_after_every_layer(opened):
    trace = drawn_trace(5)
    shown = opened(trace)
    cells_ = shown.page.eval_on_selector_all(
        "#logit-lens td.read", "cells => cells.map(c => +c.style.getPropertyValue('--share'))"
    )
    np.testing.assert_allclose(cells_, trace.logit_lens.probabilities[:, :, 0].ravel(), rtol=1e-4)
    numbers = shown.texts("#logit-lens .layer .candidate .number")
    assert numbers == [short(share) for share in trace.logit_lens.probabilities[:, 0].ravel()]


def test_tree_shows_every_hypothesis_with_its_probability(opened):
    trace = drawn_trace(5)
    shown = opened(trace)
    widths = shown.page.eval_on_selector_all("#tree .node .share", "bars => bars.map(b => +b.getAttribute('width'))")
    assert sorted(widths) == pytest.approx(
        sorted(84 * math.exp(node.token_log_probability) for node in trace.tree.nodes), abs=0.006
    )
    shown.page.locator("#tree .node.finished").hover()
    node = trace.tree.nodes[trace.tree.results()[0]]
    assert f"log-probability {short(node.log_probability)}, score {short(node.score)}" in shown.text("#tree .readout")
    looked = trace.tree.attention[f"{HEAD}.weights"][0, node.row]
    titles = shown.page.eval_on_selector_all("#tree .strip .token", "chips => chips.map(chip => chip.title)")
    assert titles == [short(weight) for weight in looked]


def test_notebook_frame_draws_too(browser, tmp_path):
    context = browser.new_context(offline=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{drawn_trace(5)._repr_html_()}", encoding="utf-8")
    page.goto(file.as_uri())
    page.frame_locator("iframe").locator("footer").wait_for()
    assert page.frame_locator("iframe").locator(".tile").count() == 24
    page.frames[1].evaluate(FRAMES)
    page.evaluate(HEARD)
    context.close()
    assert said == []


def test_steps_stay_in_reach_of_the_thumb(opened):
    shown = opened(drawn_trace(30), width=390, height=844)
    shown.page.locator("#head-ablation").scroll_into_view_if_needed()
    box = shown.page.locator(".stepper").bounding_box()
    assert box["y"] + box["height"] == pytest.approx(844, abs=1)
    shown.page.locator("[aria-label='Next step']").click()
    assert "2 of 30" in shown.text(".step-label")


def weights_in_strips(opened) -> list[str]:
    """The tokens that are tinted by a weight, as the strips show them."""
    tinted = "(all) => all.filter(({ share }) => share > 0.004).map(({ textContent }) => textContent)"
    found: list[str] = opened.page.locator("[data-sequence] .token").evaluate_all(tinted)
    return found


@pytest.mark.parametrize("between", [(), ("<s>",), ("<sep>", "<s>")])
def test_rows_of_a_causal_language_model_are_those_of_its_steps(opened, between):
    """A task may put special tokens between source and target: nothing may be counted from the source."""
    trace = continuation(["red", " green"], [" one", " two", " three"], between=between)
    assert list(trace.problems()) == []
    made = opened(trace, address="#heads=decoder.1.self_attention.0&step=2")
    assert made.text(".step-label") == "Step 2 of 4: ·two"
    first = 2 + len(between)
    weights = trace.attention("decoder.1.self_attention")[0]
    inputs = [token.text.replace(" ", "·") for token in trace.inputs.tokens]

    def shown(row: int) -> list[str]:
        """What the row attends to, without special tokens, which are in no strip."""
        return [text for text, weight in zip(inputs, weights[row], strict=True) if weight > 0.004 and "<" not in text]

    assert weights_in_strips(made) == shown(first)
    made.page.locator("[data-sequence=target] .token").nth(2).hover()
    assert weights_in_strips(made) == shown(first + 2)
    made.page.locator("[data-sequence=source] .token").nth(1).hover()
    assert weights_in_strips(made) == shown(1)
    assert made.count("#attention .unit.is-query") == 1
    made.page.mouse.move(0, 0)
    made.page.locator("#attention .unit").nth(first).hover()  # of the keys: the first token of the target
    assert made.page.locator("[data-sequence=target] .token.is-query").all_text_contents() == ["·one"]


def test_model_without_attention_is_drawn_without_heads(opened):
    trace = continuation(["red", " green"], [" one", " two"])
    plain = dataclasses.replace(trace, family="other", interface="Other", model={"d_model": 8}, activations={})
    made = opened(plain)
    assert "This model has no attention heads" in made.text("#attention")
    assert made.texts(".strip-name") == ["Input", "Output"]
    assert made.count("#head-grid, .switcher:visible [data-value=lines]") == 0
    made.page.keyboard.press("ArrowRight")
    assert made.text(".step-label") == "Step 2 of 3: ·two"
    made.page.wait_for_function("() => location.hash === '#step=2&unit=token&picture=lines'")
