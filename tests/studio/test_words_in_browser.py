"""The view of words: neighbors and places are those of the model's vectors, and names can be read."""

import json
from itertools import combinations

import numpy as np
import pytest

from browser import hash_of, saved, settle
from sightline.tracing.figures.embedding_map import project_pca
from sightline.tracing.vectors import unit_vectors

pytestmark = pytest.mark.browser

NAMES = """(canvas) => {
  const brush = document.createElement("canvas").getContext("2d");
  return document.querySelector(".map canvas").toSvg().filter((node) => node.localName === "text").map((node) => {
    const [x, y, size] = ["x", "y", "font-size"].map((name) => Number(node.getAttribute(name)));
    brush.font = `${node.getAttribute("font-weight")} ${size}px ${node.getAttribute("font-family")}`;
    return { text: node.textContent, left: x, right: x + brush.measureText(node.textContent).width, top: y - size / 2, bottom: y + size / 2 };
  });
}"""  # noqa: E501 - JavaScript
MARGIN = 40


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def vectors_of(model, words) -> np.ndarray:
    return np.asarray(model.word_vectors(list(words)).float().numpy())


def opened(tabs, address: str, **options):
    page = tabs(f"#/words?{address}", **options)
    page.wait_for_selector(".map canvas[data-names]")
    settle(page)
    return page


def listed(page) -> list[tuple[str, float]]:
    page.wait_for_selector(".words .candidates")
    rows = page.locator(".words .candidates li").all()
    return [(row.locator(".name").inner_text(), number(row.locator(".number").inner_text())) for row in rows]


def are_nearest(shown: list[tuple[str, float]], nearness: dict[str, float], *, reverse: bool) -> None:
    """Look whether these are the nearest words and their numbers; of two that are as near, either may come first."""
    near = sorted(nearness.values(), reverse=reverse)[: len(shown)]
    assert [value for _, value in shown] == pytest.approx(near, rel=0.006, abs=1e-4)
    assert dict(shown) == pytest.approx({word: nearness[word] for word, _ in shown}, rel=0.006, abs=1e-4)


def cosines_of(model, word: str) -> dict[str, float]:
    return {one.word: one.similarity for one in model.neighbors(word, n=len(model.bundle.words))}


def test_map_is_that_of_the_figures(http, models):
    told = http.post("/studio-api/words", json={"model": "bert"}).json()
    words = models["bert"].bundle.words
    flat, shares = project_pca(unit_vectors(vectors_of(models["bert"], words)))
    assert tuple(told["words"]) == words
    np.testing.assert_allclose(np.stack((told["x"], told["y"]), axis=1), flat, atol=1e-6)
    assert told["explained_variance"] == pytest.approx(float(shares.sum()))


def test_neighbors_by_cosine_are_those_of_the_model(tabs, models):
    page = opened(tabs, "model=bert&word=cat")
    shown = listed(page)
    assert len(shown) == 12
    are_nearest(shown, cosines_of(models["bert"], "cat"), reverse=True)


def test_neighbors_by_distance_are_the_nearest_vectors(tabs, models):
    page = opened(tabs, "model=bert&word=cat")
    listed(page)
    page.get_by_role("button", name="Distance").click()
    page.wait_for_selector("text=Euclidean distance")
    others = [word for word in models["bert"].bundle.words if word != "cat"]
    [own, *vectors] = vectors_of(models["bert"], ["cat", *others])
    far = {word: float(np.linalg.norm(vector - own)) for word, vector in zip(others, vectors, strict=True)}
    shown = listed(page)
    assert len(shown) == 12
    are_nearest(shown, far, reverse=False)
    assert "measure=distance" in hash_of(page)


def test_a_word_that_is_in_no_list_can_be_found(tabs, models):
    page = opened(tabs, "model=bert")
    page.get_by_label("Search for a word").fill("Katze")
    page.keyboard.press("Enter")
    are_nearest(listed(page), cosines_of(models["bert"], "Katze"), reverse=True)
    assert "Katze" in {name["text"] for name in page.evaluate(NAMES)}


def test_a_word_that_is_in_no_list_is_not_shown_as_known(tabs, models):
    page = opened(tabs, "model=bert&word=Katze")
    listed(page)
    said = page.locator(".words .warning").inner_text()
    assert "is not in the model's word list" in said
    assert f"its {len('Katze')} tokens" in said  # letter by letter: no token has more of it
    page.get_by_label("Search for a word").fill("cat")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Nearest to “\u2068cat\u2069”")
    assert page.locator(".words .warning").count() == 0
    assert "Katze" not in {name["text"] for name in page.evaluate(NAMES)}  # nor left behind on the map


def test_a_click_chooses_the_word_that_is_there(tabs, http):
    page = opened(tabs, "model=bert")
    told = http.post("/studio-api/words", json={"model": "bert"}).json()
    box = page.locator(".map canvas").bounding_box()
    x, y = np.array(told["x"]), np.array(told["y"])
    scale = min((box["width"] - 2 * MARGIN) / np.ptp(x), (box["height"] - 2 * MARGIN) / np.ptp(y))
    gaps = np.hypot(x[:, None] - x, y[:, None] - y)
    place = int(np.sort(gaps, axis=1)[:, 1].argmax())  # the one that is farthest from all others
    word = told["words"][place]
    across = box["x"] + box["width"] / 2 + (x[place] - (x.min() + x.max()) / 2) * scale
    down = box["y"] + box["height"] / 2 - (y[place] - (y.min() + y.max()) / 2) * scale
    page.mouse.click(across, down)
    page.get_by_text(f"Nearest to “\u2068{word}\u2069”", exact=True).wait_for()
    assert f"word={word}" in hash_of(page)
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Select a word on the map")
    assert "word=" not in hash_of(page)


def test_a_neighbor_leads_to_its_own(tabs, models):
    page = opened(tabs, "model=gpt&word=cat")
    nearest = listed(page)[0][0]
    page.locator(".words .candidates .pick").first.click()
    page.get_by_text(f"Nearest to “\u2068{nearest}\u2069”", exact=True).wait_for()
    are_nearest(listed(page), cosines_of(models["gpt"], nearest), reverse=True)


def test_own_words_serve_where_there_is_no_list(tabs, models):
    page = opened_without_list(tabs)
    page.get_by_label("Your own words").fill("cat, dog house mat")
    page.get_by_role("button", name="Show these words").click()
    page.wait_for_selector(".map canvas[data-names]")
    page.get_by_label("Search for a word").fill("cat")
    page.keyboard.press("Enter")
    unit = unit_vectors(vectors_of(models["one-way"], ["cat", "dog", "house", "mat"]))
    cosines = dict(zip(["dog", "house", "mat"], (unit[1:] @ unit[0]).tolist(), strict=True))
    shown = listed(page)
    assert len(shown) == 3
    are_nearest(shown, cosines, reverse=True)


def opened_without_list(tabs):
    page = tabs("#/words?model=one-way")
    page.wait_for_selector("text=has no word list")
    return page


@pytest.mark.parametrize("width", [390, 1280])
def test_names_never_overlap_and_the_page_never_scrolls_sideways(tabs, width):
    words = " ".join(f"{letter}{number}" for letter in "abcdefgh" for number in range(50))
    page = opened(tabs, f"model=gpt&words={words}&word=a1", width=width, theme="dark")
    listed(page)
    names = page.evaluate(NAMES)
    assert {"a1"} < {name["text"] for name in names}
    # Of 400 words; how many have room is the trained vectors' doing, which differ from processor to processor.
    assert 1 < len(names) < 400
    for one, other in combinations(names, 2):
        apart = one["right"] <= other["left"] + 0.5 or other["right"] <= one["left"] + 0.5
        assert apart or one["bottom"] <= other["top"] + 0.5 or other["bottom"] <= one["top"] + 0.5, (one, other)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_saved_numbers_are_those_shown(tabs, http):
    page = opened(tabs, "model=gpt&word=cat")
    listed(page)
    page.get_by_role("button", name="Save", exact=True).click()
    _, file = saved(page, page.get_by_role("button", name="Save as JSON").click)
    told = http.post("/studio-api/neighbors", json={"model": "gpt", "word": "cat", "n": 12}).json()
    assert json.loads(file)["neighbors"] == told["neighbors"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"model": "one-way", "word": "cat"}, "no word list"),
        ({"model": "gpt", "word": "cat", "words": [" "]}, "is not a word"),
        ({"model": "gpt", "word": "cat", "measure": "angle"}, "measure"),
        ({"model": "nobody", "word": "cat"}, "model not found"),
    ],
)
def test_what_cannot_be_near_is_refused_with_a_sentence(http, body, said):
    answer = http.post("/studio-api/neighbors", json=body)
    assert answer.status_code in (400, 404)
    assert said in answer.json()["error"]["message"]
