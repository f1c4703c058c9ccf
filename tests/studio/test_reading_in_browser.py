"""Fill and Classify: every bar and number is the interface's answer."""

from urllib.parse import parse_qs, urlsplit

import pytest

from browser import hash_of, settle
from tracing.test_page_in_browser import Shown

pytestmark = pytest.mark.browser

FILL, CLASSIFY = "/tasks/masked-language-model", "/tasks/classification"
GAPS = "the [MASK] sat on the [MASK]"


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def shown(part) -> list[tuple[str, float]]:
    """Names and numbers of a list of bars; each bar is as long as its number says."""
    rows = []
    for row in part.locator(".candidates li").all():
        rows.append((row.locator(".name").inner_text(), number(row.locator(".number").inner_text())))
        share = float(row.locator(".bar").evaluate("bar => bar.style.getPropertyValue('--share')"))
        assert share == pytest.approx(rows[-1][1], rel=0.006)
    return rows


def inside(page) -> dict[str, list[str]]:
    address = urlsplit(page.locator(".inside").get_attribute("href").removeprefix("#"))
    assert address.path == "/watch"
    return parse_qs(address.query)


def test_candidates_are_those_of_the_interface(tabs, http):
    page = tabs(f"#/fill?model=bert&text={GAPS}")
    page.wait_for_selector(".gaps .candidates")
    gaps = http.post(FILL, json={"model": "bert", "input": GAPS, "n": 10}).json()["data"][0]
    parts = page.locator(".gaps > div").all()
    assert len(parts) == len(gaps) == 2
    for part, gap in zip(parts, gaps, strict=True):
        assert [value for _, value in shown(part)] == pytest.approx([one["probability"] for one in gap], rel=0.006)
        titles = [row.get_attribute("title") for row in part.locator(".name").all()]
        assert titles == [f"Insert: {one['text']}" for one in gap]
    assert inside(page) == {"model": ["bert"], "text": [GAPS]}


def test_a_candidate_is_put_in_and_the_rest_asked_again(tabs, http):
    page = tabs(f"#/fill?model=bert&text={GAPS}")
    page.wait_for_selector(".gaps .candidates")
    chosen = http.post(FILL, json={"model": "bert", "input": GAPS, "n": 10}).json()["data"][0][0][2]["text"]
    page.locator(".gaps .pick").nth(2).click()
    assert page.locator(".fill textarea").input_value() == chosen
    page.wait_for_selector("h3:has-text('Most likely tokens')")
    [gap] = http.post(FILL, json={"model": "bert", "input": chosen, "n": 10}).json()["data"][0]
    found = [value for _, value in shown(page.locator(".gaps"))]
    assert found == pytest.approx([one["probability"] for one in gap], rel=0.006)
    page.get_by_role("button", name="Undo").click()
    assert page.locator(".fill textarea").input_value() == GAPS


def test_a_gap_is_inserted_where_the_cursor_is(tabs):
    page = tabs("#/fill?model=bert&text=the cat sat")
    page.wait_for_selector("text=The text has no mask")
    page.locator(".fill textarea").evaluate("area => area.setSelectionRange(4, 7)")
    page.get_by_role("button", name="Insert [MASK]").click()
    assert page.locator(".fill textarea").input_value() == "the [MASK] sat"
    page.wait_for_selector(".gaps .candidates")


def test_classes_are_those_of_the_interface(tabs, http):
    page = tabs("#/classify?model=classes&text=the cat sat")
    page.wait_for_selector(".candidates")
    [one] = http.post(CLASSIFY, json={"model": "classes", "input": "the cat sat"}).json()["data"]
    expected = sorted(one["probabilities"].items(), key=lambda pair: -pair[1])
    found = shown(page.locator(".classify"))
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected], rel=0.006)
    assert page.locator(".candidate.chosen .name").inner_text() == one["label"]
    assert inside(page) == {"model": ["classes"], "text": ["the cat sat"]}


LIKELY = """wanted => {
  const shown = [...document.querySelectorAll(".classify .candidates .number")];
  const off = (one, at) => Math.abs(Number(one.textContent.replace("−", "-")) - wanted[at]);
  return shown.length === wanted.length && shown.every((one, at) => off(one, at) <= 6e-3 * wanted[at]);
}"""
"""Whether these probabilities are shown, the highest first: the page keeps the old ones until it has the new."""


def test_a_pair_is_classified_as_a_pair(tabs, http, models):
    page = tabs("#/classify?model=classes&text=the cat sat")
    page.wait_for_selector(".candidates")
    page.get_by_role("button", name="Add a second text").click()
    page.get_by_label("Second text").fill("a dog ran")
    page.get_by_role("button", name="Classify").click()
    [one] = http.post(CLASSIFY, json={"model": "classes", "pairs": [["the cat sat", "a dog ran"]]}).json()["data"]
    page.wait_for_function(LIKELY, arg=sorted(one["probabilities"].values(), reverse=True))
    assert dict(shown(page.locator(".classify"))) == pytest.approx(one["probabilities"], rel=0.006)
    again = tabs(hash_of(page))
    again.wait_for_function(LIKELY, arg=sorted(one["probabilities"].values(), reverse=True))
    assert again.get_by_label("Second text").input_value() == "a dog ran"
    again.locator(".inside").click()
    again.wait_for_selector(".watch[aria-busy=false]")
    own = models["classes"].trace(("the cat sat", "a dog ran"))
    assert again.locator("#sentence .token").count() == len(own.source.tokens)
    likely = [Shown(candidate.probability) for candidate in own.steps[0].candidates]
    assert again.locator("#decoding-steps .candidates .candidate .number").all_text_contents() == likely


@pytest.mark.parametrize("extra_input", [None, "pair"])
def test_a_second_text_is_offered_where_the_model_reads_pairs(tabs, extra_input):
    """A model of texts refuses pairs, one of pairs refuses single texts: neither is offered what it refuses."""
    page = tabs("#/fill?model=bert&text=the cat", fresh=True)  # any other first, so that the cards can be changed

    def change(route):
        listed = route.fetch().json()
        for card in listed["data"]:
            card["view"]["extra_input"] = extra_input
        route.fulfill(json=listed)

    page.route("**/v1/models", change)
    page.goto(page.evaluate("location.href").replace("fill?model=bert", "classify?model=classes"))
    page.reload()
    page.get_by_role("button", name="Classify").wait_for()
    assert page.get_by_label("Second text").is_visible() == (extra_input == "pair")
    assert page.get_by_role("button", name="Add a second text").count() == 0
    assert page.get_by_role("button", name="Remove the second text").count() == 0
    if extra_input == "pair":
        page.get_by_label("Second text").fill("a dog ran")
        page.get_by_role("button", name="Classify").click()
    page.wait_for_selector(".candidates .number")
    label, first = (page.locator(f".classify .examples {part}").first.bounding_box() for part in (".note", ".example"))
    assert label["height"] <= first["height"]  # in one line


def test_words_have_their_classes(tabs, http):
    page = tabs("#/classify?model=tags&text=the cat sat on")
    page.wait_for_selector(".tagged .token")
    [words] = http.post(CLASSIFY, json={"model": "tags", "input": "the cat sat on"}).json()["data"]
    chips = page.locator(".tagged .token").all()
    assert [chip.locator("span").inner_text() for chip in chips] == ["the", "cat", "sat", "on"]
    assert [chip.locator("b").inner_text() for chip in chips] == [word["label"] for word in words]
    numbers = [number(chip.locator(".number").inner_text()) for chip in chips]
    assert numbers == pytest.approx([word["probability"] for word in words], rel=0.006)
    chips[0].focus()
    for place, word in enumerate(words):
        assert dict(shown(page.locator(".classify"))) == pytest.approx(word["probabilities"], rel=0.006), place
        page.keyboard.press("ArrowRight")
    assert not page.get_by_role("button", name="Add a second text").is_visible()


def test_what_is_refused_is_said(tabs):
    page = tabs(f"#/classify?model=classes&text={'cat ' * 100}")
    page.wait_for_selector(".problem:not(:empty)")
    assert "tokens" in page.locator(".problem").inner_text()


@pytest.mark.parametrize("address", [f"#/fill?model=bert&text={GAPS}", "#/classify?model=tags&text=the cat sat"])
def test_a_phone_never_scrolls_sideways(tabs, address):
    page = tabs(address, width=390, theme="dark")
    page.wait_for_selector(".candidates")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
