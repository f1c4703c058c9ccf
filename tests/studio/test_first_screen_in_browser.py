"""The first screen: what the model is, what one could try, and whether it has ever seen anything like it; and the way
back.
"""

import re

import pytest

from browser import FRAMES, hash_of, until

pytestmark = pytest.mark.browser

READY = ".watch[aria-busy=false]"


@pytest.fixture(scope="module")
def cards(http) -> dict[str, dict]:
    return {card["id"]: card for card in http.get("/v1/models").json()["data"]}


def text_of(tab) -> str:
    return tab.locator(".ask input").first.input_value()


@pytest.mark.parametrize("width", [1280, 390])
def test_it_says_what_the_model_is_and_leaves_room_for_the_sentence(tabs, cards, width):
    tab = tabs("#/watch?model=phrases", width=width, height=844)
    tab.wait_for_selector(f"{READY} .token")
    about, facts = cards["phrases"]["about"], tab.locator("#about").inner_text()
    assert "phrases translates between English, German, French, Spanish, Portuguese and Italian." in facts
    assert f"Trained on {about['n_examples']:,} examples from phrasebook-train.tsv" in facts.replace("\u202f", ",")
    assert re.search(r"BLEU [\d.]+ of 100", facts)
    assert re.search(r"[\d,.]+ parameters", facts.replace("\u202f", ","))
    assert tab.locator("#about abbr").first.get_attribute("title")
    sentence, stepper = (tab.locator(one).bounding_box() for one in ("#sentence", ".stepper"))
    below = stepper["y"] if width == 390 else 844  # on a phone it lies over the bottom of the page
    assert sentence["y"] + sentence["height"] < below
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_model_of_unknown_training_is_described_by_what_is_known(tabs, cards):
    tab = tabs("#/watch?model=one-way")
    tab.wait_for_selector(READY)
    said = tab.locator("#about").inner_text()
    assert "one-way translates from one language to another." in said
    assert "Trained on" not in said
    assert text_of(tab) == "Good morning"  # the example of the task
    assert not tab.locator(".examples").is_visible()


def test_examples_are_inputs_of_the_validation_set_and_run_on_click(tabs, cards):
    tab = tabs("#/watch?model=phrases")
    tab.wait_for_selector(READY)
    examples = cards["phrases"]["examples"]
    assert 1 < tab.locator(".example").count() == len(examples) <= 8
    assert text_of(tab) == examples[0]["text"]
    tab.locator(".example").nth(2).click()
    until(tab, lambda: f"to={examples[2]['to']}" in hash_of(tab))
    assert text_of(tab) == examples[2]["text"]
    tab.wait_for_selector(f"{READY} .token")
    assert examples[2]["reference"][:30] in tab.locator(".expected").inner_text()
    tab.go_back()  # to the first one
    until(tab, lambda: text_of(tab) == examples[0]["text"])


@pytest.mark.parametrize(
    ("address", "field"),
    [("walk?model=phrases", ".ask input"), ("write?model=gpt", "textarea"), ("chat?model=talk", ".ask input"),
     ("fill?model=bert", "textarea"), ("classify?model=classes", "textarea")],
)  # fmt: skip
def test_every_view_that_takes_a_text_offers_examples(tabs, cards, address, field):
    tab = tabs(f"#/{address}")
    name = address.partition("model=")[2]
    tab.locator(".example").last.click()
    last = cards[name]["examples"][-1]["text"]
    until(tab, lambda: tab.locator(field).first.input_value() == last)


def test_an_unfamiliar_input_is_noted_and_a_familiar_one_is_not(tabs, models):
    tab = tabs("#/watch?model=classes&text=" + "der graue Vogel singt nie draußen")
    note = tab.locator(".unfamiliar")
    note.wait_for()
    assert note.inner_text() == models["classes"].find_unfamiliar("der graue Vogel singt nie draußen").note
    tab.get_by_label("Text to classify").fill("the old dog often barks here .")
    tab.keyboard.press("Enter")
    note.wait_for(state="hidden")
    tab.wait_for_selector(READY)
    assert not note.is_visible()


def test_no_validation_input_is_unfamiliar(models):
    for name, model in models.items():
        noted = [one.text for one in model.bundle.training.examples if model.find_unfamiliar(one.text)]
        assert noted == [], name


def test_the_language_comes_along_from_watch_to_walk_through(tabs):
    tab = tabs("#/watch?model=phrases&text=March+14%2C+2026&to=fr")
    tab.wait_for_selector(READY)
    tab.get_by_role("link", name="Walk through").click()
    tab.wait_for_selector(".walk .stage.drawn")
    assert tab.get_by_label("To", exact=True).input_value() == "fr"
    assert "to=fr" in hash_of(tab)


def test_back_goes_to_what_was_selected_before_and_stays_in_the_studio(tabs):
    tab = tabs("#/watch?model=one-way&text=the+cat", fresh=True)
    tab.wait_for_selector(f"{READY} .tile")
    tab.get_by_label("Text to translate").fill("a dog")
    tab.keyboard.press("Enter")
    until(tab, lambda: "text=a+dog" in hash_of(tab))
    tab.wait_for_selector(f"{READY} .tile")
    tab.locator(".tile").first.click()
    until(tab, lambda: "heads=encoder.0.self_attention.0" in hash_of(tab))
    tab.get_by_role("link", name="Words").click()
    tab.wait_for_selector(".words")
    for part in ("heads=encoder.0", "text=a+dog", "text=the+cat"):
        tab.go_back()
        until(tab, lambda part=part: part in hash_of(tab) and hash_of(tab).startswith("#/watch"))
    tab.wait_for_selector(READY)
    assert text_of(tab) == "the cat"


def test_another_model_is_given_the_same_text(tabs, cards):
    tab = tabs("#/watch?model=phrases&text=March+15&to=fr")
    tab.wait_for_selector(READY)
    tab.get_by_label("Model", exact=True).select_option("one-way")
    until(tab, lambda: "model=one-way" in hash_of(tab))
    tab.wait_for_selector(READY)
    assert text_of(tab) == "March 15"
    tab.evaluate("location.hash = '#/watch?model=phrases'")  # its first example is not the user's
    until(tab, lambda: "model=phrases" in hash_of(tab) and text_of(tab) == cards["phrases"]["example"]["text"])
    tab.wait_for_selector(READY)
    tab.get_by_label("Model", exact=True).select_option("classes")
    until(tab, lambda: "model=classes" in hash_of(tab))
    tab.wait_for_selector(READY)
    assert text_of(tab) == cards["classes"]["example"]["text"]


def test_an_error_leaves_nothing_of_another_text(tabs):
    tab = tabs("#/walk?model=one-way&text=the+cat")
    tab.wait_for_selector(".stage.drawn")
    tab.locator(".ask input").first.fill("cat " * 2000)
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".problem:not(:empty)")
    assert tab.locator(".stage").count() == 0
    tab.evaluate("location.hash = '#/classify?model=classes&text=a+dog'")
    tab.wait_for_selector(".classify .candidates")
    tab.locator("textarea").first.fill("dog " * 2000)
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".problem:not(:empty)")
    assert tab.locator(".classify .candidates").count() == 0


@pytest.mark.parametrize("address", ["watch?model=phrases&text=March+14%2C+2026&to=de", "walk?model=one-way&text=cat"])
def test_a_print_is_not_empty(tabs, address):
    """Dark ink on white whatever the theme, and with the colors that mean something."""
    tab = tabs(f"#/{address}", theme="dark")
    tab.wait_for_selector(".stage.drawn canvas, #attention svg .unit")
    tab.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
    tab.evaluate(FRAMES)
    shown = tab.evaluate("""async () => {
      const { cssColor, palette } = await import("/page/theme.js");
      const scale = new Set(palette().weight.map(cssColor));
      const tints = [...document.querySelectorAll("#view .token")].map((one) => one.style.backgroundColor);
      const style = (selector) => getComputedStyle(document.querySelector(selector));
      const tall = ({ height }) => height > 0;
      const undrawn = [...document.querySelectorAll(".stage:not(.drawn)")];
      return {
        ink: style("body").color, paper: style("body").backgroundColor, exact: style(".token").printColorAdjust,
        views: tall(document.querySelector("#view section").getBoundingClientRect()),
        tints: tints.every((tint) => tint === "" || scale.has(tint)),
        empty: undrawn.some((one) => one.checkVisibility()), form: style(".ask").display,
      };
    }""")
    tab.emulate_media(media="screen", color_scheme="dark", reduced_motion="reduce")
    expected = {"ink": "rgb(23, 32, 44)", "paper": "rgb(255, 255, 255)", "exact": "exact"}
    assert shown == {**expected, "views": True, "tints": True, "empty": False, "form": "none"}


@pytest.mark.parametrize(("view", "source"), [("watch", f"{READY} #sentence .token"), ("walk", ".walk .token")])
def test_a_model_of_two_languages_translates_into_the_other_one_unless_told(tabs, view, source):
    tab = tabs(f"#/{view}?model=en-de&text=Wo+ist+der+Bahnhof%3F")
    tag = tab.locator(source).first
    until(tab, lambda: tag.inner_text() == "<2en>")
    chosen = tab.get_by_label("To", exact=True)
    assert chosen.locator("option:checked").inner_text() == "the other language"
    assert "to=" not in hash_of(tab)
    tab.locator(".ask input").first.fill("Where is the station?")
    tab.keyboard.press("Enter")
    until(tab, lambda: tag.inner_text() == "<2de>")
    assert "to=" not in hash_of(tab)
    chosen.select_option(label="English")
    tab.locator(".ask button").last.click()
    until(tab, lambda: tag.inner_text() == "<2en>")
    assert "to=en" in hash_of(tab)
