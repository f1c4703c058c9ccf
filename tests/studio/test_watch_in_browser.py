"""Watch: what stands on the page is what the model did, with all its heads and without some."""

import json
import math
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest

from browser import FRAMES, hash_of, settle, until
from browser import saved as file_of
from pipelines.tiny import generator_bundle
from sightline.pipelines import Generator
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes
from tracing.test_legibility_in_browser import CUT, MIN_CONTRAST, UNREADABLE
from tracing.test_page_in_browser import Shown

pytestmark = pytest.mark.browser

READY = ".watch[aria-busy=false]"
HEAD = "decoder.1.cross_attention"
PHRASES = "#/watch?model=phrases&text=March+14%2C+2026&to=de"


def opened(tabs, address, **settings):
    tab = tabs(address, **settings)
    tab.wait_for_selector(READY)
    tab.wait_for_selector("#attention svg .unit, #attention .cells[data-plan]")  # drawn once it is measured
    settle(tab)
    return tab


def numbers(tab, selector):
    return tab.locator(selector).all_text_contents()


def saved(tab, section):
    """What the JSON of a part's save button holds."""
    tab.locator(f"{section} .save > button").last.click()
    _, numbers = file_of(tab, tab.locator(f"{section} [aria-label='Save as JSON']").click)
    return json.loads(numbers)


OPTIONS = {
    "phrases": {"beam_size": 4},
    "one-way": {"beam_size": 4},
    "talk": {"beam_size": 4},
    "gpt": {"beam_size": 1, "do_sample": False, "max_new_tokens": 20},
}
"""How the page asks a model that generates text."""


def test_every_kind_of_model_shows_an_example_at_once(tab, models, http):
    for card in http.get("/v1/models").json()["data"]:
        name, text = card["id"], card["example"]["text"]
        settings = {**OPTIONS.get(name, {}), **({"to": card["example"]["to"]} if card["example"]["to"] else {})}
        tab.get_by_label("Model", exact=True).select_option(name)
        tab.wait_for_function("name => document.title.includes(name)", arg=f" {name} ")
        tab.wait_for_selector(READY)
        own = models[name].trace(text.split() if name == "tags" else text, **settings)
        assert tab.locator(".ask input").input_value() == text
        assert numbers(tab, "#decoding-steps .candidates .candidate .number") == [
            Shown(candidate.probability) for candidate in own.steps[0].candidates
        ]
        said = math.exp(sum(step.log_probability for step in own.steps))
        assert Shown(said).stands_in(tab.locator(".model-output").inner_text())
        assert tab.locator("#head-grid .tile").count() == sum(own[hooks].shape[0] for hooks in own.names)


def test_a_typed_sentence_is_translated_as_the_interface_does(tabs, http):
    tab = opened(tabs, PHRASES)
    tab.get_by_label("Text to translate").fill("a dog ran to the house")
    tab.get_by_label("To", exact=True).select_option("fr")
    tab.get_by_label("Beam", exact=True).select_option("1")
    tab.get_by_role("button", name="Translate").click()
    tab.wait_for_function("() => document.querySelector('[data-sequence=source] .token')?.textContent === '<2fr>'")
    body = {"model": "phrases", "q": "a dog ran to the house", "target": "fr", "source": "auto"}
    plain = http.post("/translate", json=body).json()["translatedText"]
    assert tab.locator(".model-output .output-text").text_content() == plain
    assert "text=a+dog+ran+to+the+house&to=fr&beam=1" in hash_of(tab)
    assert tab.locator("#tree").is_hidden()  # one hypothesis is no tree


def test_the_weights_and_candidates_of_each_step_are_those_of_the_trace(tabs, models):
    tab = opened(tabs, f"{PHRASES}&beam=4&heads={HEAD}.1&step=1")
    own = models["phrases"].trace("March 14, 2026", to="de", beam_size=4, head_ablation=True)
    place = min(2, len(own.steps) - 1)
    for _ in range(place):
        tab.keyboard.press("ArrowRight")
    shown = saved(tab, "#decoding-steps")
    assert shown["step"] == place
    step = own.steps[place]
    likely = {one["text"]: one["probability"] for one in shown["candidates"]}
    assert likely == pytest.approx({one.text: one.probability for one in step.candidates}, rel=1e-3)
    bars = numbers(tab, "#decoding-steps .candidates .candidate .number")
    assert bars == [Shown(one.probability) for one in step.candidates]
    weights = own.attention(HEAD)[1, step.row]
    assert [one["weight"] for one in shown["attended"]] == pytest.approx(weights.tolist(), rel=1e-4, abs=1e-9)
    total = own.head_ablation.total[own.head_ablation.attentions.index(HEAD)]
    cells = tab.locator(f"#head-ablation td[data-attention='{HEAD}']").all_text_contents()
    shown = [float(cell.replace("−", "-")) for cell in cells]
    steps = own.head_ablation.steps[own.head_ablation.attentions.index(HEAD)]
    left_out = 6e-3 * abs(total) + 2e-5 * abs(steps).sum(axis=-1)  # three digits of a sum of rounded numbers
    assert (abs(np.array(shown) - total) <= left_out).all()


def test_an_ablated_head_changes_the_output_as_the_model_says(tabs, models):
    tab = opened(tabs, f"{PHRASES}&beam=4&heads={HEAD}.1&step=2")
    before = models["phrases"].trace("March 14, 2026", to="de", beam_size=4)
    after = models["phrases"].trace("March 14, 2026", to="de", beam_size=4, ablate_heads={HEAD: [1]})
    forced = models["phrases"].trace(
        "March 14, 2026", to="de", target=before.target.text, ablate_heads={HEAD: [1]}, candidates=100
    )
    tab.get_by_role("button", name="Ablate", exact=True).click()
    tab.wait_for_selector("#ablation:not([hidden])")
    assert tab.locator("[data-output=before] .output-text").text_content() == before.target.text
    assert tab.locator("[data-output=after] .output-text").text_content() == after.target.text
    for trace, name in ((before, "before"), (after, "after")):
        assert Shown(math.exp(trace.log_probability)).stands_in(tab.locator(f"[data-output={name}]").inner_text())
    assert tab.locator(".tile.ablated").count() == 1
    assert "ablated=decoder.1.cross_attention.1" in wait_for_address(tab, "ablated=")
    rows = tab.locator("#ablation tbody tr")
    for step, (old, new) in enumerate(zip(before.steps, forced.steps, strict=False)):
        shown = rows.nth(step).locator("td").all_text_contents()
        found = [one.probability for one in new.candidates if one.id == old.choice.id]
        assert shown[0] == Shown(math.exp(old.log_probability))
        assert shown[1] == Shown(found[0]) if found else shown[1].startswith("<")
    there = min(2, len(after.steps))
    assert tab.locator(".step-label").inner_text().startswith(f"Step {there} of ")  # where one was
    kept = saved(tab, "#ablation")
    assert kept["ablated_heads"] == ["Cross-attention, layer 1, head 1"]
    assert (kept["before"], kept["after"]) == (before.target.text, after.target.text)
    given = [one["with"] for one in kept["tokens"]]
    assert given == pytest.approx([math.exp(step.log_probability) for step in before.steps], rel=1e-4)


def wait_for_address(tab, part):
    tab.wait_for_function("part => location.hash.includes(part)", arg=part)
    return tab.evaluate("decodeURIComponent(location.hash)")


def test_several_heads_may_be_out_and_all_be_put_back(tabs):
    tab = opened(tabs, f"{PHRASES}&beam=1&heads={HEAD}.1")
    first = tab.locator(".model-output").inner_text()
    tab.keyboard.press("k")
    tab.wait_for_selector("#ablation:not([hidden])")
    tab.locator(".tile").first.click()
    tab.get_by_role("button", name="Ablate", exact=True).click()
    tab.wait_for_function("() => document.querySelectorAll('.tile.ablated').length === 2")
    assert "without 2 heads" in tab.locator(".model-output").inner_text()
    assert tab.evaluate("document.activeElement.textContent") == "Restore"  # the focus is where it was
    tab.get_by_role("button", name="Restore all").click()
    tab.wait_for_selector("#ablation", state="hidden")
    assert tab.locator(".tile.ablated").count() == 0
    assert tab.locator(".model-output").inner_text() == first
    tab.wait_for_function("() => !location.hash.includes('ablated')")


def test_a_gap_is_compared_by_the_same_word(tabs, models):
    tab = opened(tabs, "#/watch?model=bert&text=the+%5BMASK%5D+sat&ablated=encoder.1.self_attention.0")
    before = models["bert"].trace("the [MASK] sat")
    after = models["bert"].trace("the [MASK] sat", ablate_heads={"encoder.1.self_attention": [0]}, candidates=100)
    word = before.steps[0].candidates[0]
    shown = tab.locator("#ablation tbody tr td").all_text_contents()
    found = [one.probability for one in after.steps[0].candidates if one.id == word.id]
    assert shown[0] == Shown(word.probability)
    least = Shown(found[0] if found else after.steps[0].candidates[-1].probability)
    assert shown[1].removeprefix("< ") == least
    assert shown[1].startswith("<") != bool(found)


def test_a_link_restores_everything(tabs, models):
    ablated = {"encoder.0.self_attention": [1]}
    own = models["phrases"].trace("March 14, 2026", to="de", beam_size=8, ablate_heads=ablated)
    step = min(3, len(own.steps))
    chosen = f"heads={HEAD}.0%2C{HEAD}.1&step={step}&unit=word&picture=matrix"
    address = f"{PHRASES}&beam=8&{chosen}&ablated=encoder.0.self_attention.1"
    tab = opened(tabs, address)
    assert [one.input_value() for one in tab.locator(".ask input, .ask select").all()] == ["March 14, 2026", "de", "8"]
    assert tab.locator(".step-label").inner_text().startswith(f"Step {step} of ")
    assert tab.locator("#attention-title").inner_text().startswith("Mean of 2 heads")
    tab.locator("#attention .matrix").wait_for()
    assert tab.get_by_role("button", name="Words").get_attribute("aria-pressed") == "true"
    assert tab.locator(".ablated-heads").inner_text().startswith("Encoder self-attention, layer 0, head 1")


def test_what_is_refused_is_said_beside_the_field_and_what_another_text_gave_is_gone(tabs):
    tab = opened(tabs, PHRASES)
    tab.get_by_label("Text to translate").fill("")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("form ~ .problem:not(:empty)")
    assert "the text is empty" in tab.locator(".problem").inner_text()
    assert not tab.locator(".watch").is_visible()
    tab.get_by_label("Text to translate").fill("the dog")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".problem", state="hidden")
    tab.wait_for_selector(".model-output")


def test_a_saved_file_says_what_it_shows_of_which_model_and_text(tabs):
    tab = opened(tabs, f"{PHRASES}&heads={HEAD}.1")
    tab.locator(".lines-view .save > button").last.click()
    name, picture = file_of(tab, tab.locator(".lines-view [aria-label='Save as SVG']").click)
    assert name == "sightline-phrases-decoder.cross-attention-head-1.1-March-14-2026.svg"
    root = ElementTree.fromstring(picture)  # noqa: S314 (our own)
    said = "Cross-attention, layer 1, head 1 · phrases · “March 14, 2026” · Sightline"
    assert root.find("{*}title").text.endswith(said)
    assert [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")][-1].endswith("Sightline")
    kept = json.loads(file_of(tab, tab.locator(".lines-view [aria-label='Save as JSON']").click)[1])
    assert (kept["model"], kept["text"]) == ("phrases", "March 14, 2026")
    assert kept["title"]
    assert len(kept["weights"]) > 1


def test_a_new_request_ends_the_one_before(tabs):
    tab = opened(tabs, "#/watch?model=one-way&text=the+cat", fresh=True)
    failed = []
    tab.on("requestfailed", lambda request: failed.append(request.failure))
    held = []
    tab.route("**/trace", lambda route: held.append(route), times=1)
    tab.get_by_label("Text to translate").fill("a dog")
    with tab.expect_request("**/trace"):
        tab.keyboard.press("Enter")
    tab.get_by_label("Text to translate").fill("the house")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelector('[data-sequence=source]')?.textContent.includes('house')")
    until(tab, lambda: bool(failed))
    assert failed == ["net::ERR_ABORTED"]
    assert tab.locator(".problem").inner_text() == ""


WATCHED = """() => {
  const button = () => document.querySelector("#decoding-steps .play")?.textContent;
  window.said = [button()];
  const watched = new MutationObserver(() => said.push(button()));
  watched.observe(document.querySelector("#decoding-steps"), { childList: true, characterData: true, subtree: true });
}"""
"""Write down what the button says from now on: a short one may have ended when one looks."""


def test_the_steps_play_by_themselves_unless_motion_is_not_wanted(tabs):
    for motion, plays in (("no-preference", True), ("reduce", False)):
        tab = opened(tabs, "#/watch?model=one-way&text=the+cat&beam=1", motion=motion)
        tab.get_by_label("Text to translate").fill("a dog ran")
        tab.evaluate(WATCHED)
        tab.keyboard.press("Enter")
        tab.wait_for_function("() => document.querySelector('[data-sequence=source]')?.textContent.includes('dog')")
        tab.evaluate(FRAMES)
        assert ("Pause" in tab.evaluate("said")) == plays


def test_a_large_model_is_measured_head_by_head_only_when_asked_to(tabs, models):
    tab = opened(
        tabs, "#/watch?model=bert&text=the+cat", fresh=True
    )  # any other first, so that the cards can be changed
    tab.route("**/v1/models", lambda route: route.fulfill(json=larger(route.fetch().json())))
    tab.goto(tab.evaluate("location.href").replace("bert", "one-way"))
    tab.reload()
    tab.wait_for_selector(READY)
    assert tab.locator("#head-ablation").is_hidden()
    tab.get_by_role("button", name="Ablate every head").click()
    tab.wait_for_selector("#head-ablation:not([hidden])")
    assert tab.locator("#measure").is_hidden()
    assert "ablation=1" in hash_of(tab)


def larger(listed):
    """The cards of models as if they were of any size."""
    return {**listed, "data": [{**card, "parameters": 10**12} for card in listed["data"]]}


def test_keys_belong_to_the_field_while_one_types(tabs):
    tab = opened(tabs, PHRASES)
    tab.get_by_label("Text to translate").fill("")
    tab.keyboard.type("walk me")
    assert tab.get_by_label("Text to translate").input_value() == "walk me"
    assert tab.locator("#attention .matrix").is_hidden()
    tab.locator("#attention-title").click()
    tab.keyboard.press("Escape")
    tab.locator("#view").focus()
    tab.keyboard.press("m")
    tab.locator("#attention .matrix").wait_for()


def test_a_word_that_is_pointed_at_is_followed_and_the_alignment_comes_with_its_warning(tabs):
    tab = opened(tabs, f"{PHRASES}&beam=1")
    assert "Attention is not alignment" in tab.locator("#alignment .warning").inner_text()
    tab.locator("#sentence [data-sequence=source] .token").nth(1).hover()
    assert tab.locator("#attention .unit.is-key").count() >= 1
    assert tab.locator("#sentence .token.is-query").count() == 1


def test_the_theme_changes_the_colors_of_the_pictures(tabs):
    tab = opened(tabs, f"{PHRASES}&picture=matrix", fresh=True)
    tab.wait_for_selector(".cells[data-plan]")
    picture = "() => document.querySelector('.cells').toDataURL()"
    light = tab.evaluate(picture)
    tab.get_by_role("button", name="Dark").click()
    assert tab.evaluate(picture) != light


@pytest.mark.parametrize(("model", "theme"), [("phrases", "light"), ("gpt", "light"), ("bert", "dark")])
def test_it_fits_a_phone_and_can_be_read(tabs, model, theme):
    heads = {"phrases": "decoder.0.cross_attention.0", "gpt": "decoder.0.self_attention.0"}
    ablated = heads.get(model, "encoder.0.self_attention.0")
    tab = opened(tabs, f"#/watch?model={model}&ablated={ablated}", width=390, height=844, theme=theme)
    tab.wait_for_selector("#ablation:not([hidden])")
    settle(tab)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate(CUT) == []
    assert tab.evaluate(UNREADABLE, MIN_CONTRAST) == []


def test_what_is_hidden_is_not_displayed(tabs):
    """Whatever a class says of `display`: else every Watch would say that its text is long."""
    tab = opened(tabs, f"{PHRASES}&beam=1")
    displayed = "all => all.filter((node) => node.checkVisibility()).map(({ outerHTML }) => outerHTML)"
    assert tab.get_by_text("This text is long").count() == 1
    assert tab.locator("[hidden]").evaluate_all(displayed) == []


def test_every_control_has_a_name(tabs):
    tab = opened(tabs, f"{PHRASES}&ablated={HEAD}.0")
    nameless = """() => [...document.querySelectorAll("input, select, button, textarea, a, [tabindex='0']")]
      .filter((node) => node.checkVisibility() && !(node.ariaLabel || node.textContent.trim() || node.labels?.length))
      .map((node) => node.outerHTML)"""
    assert tab.evaluate(nameless) == []


def test_a_long_text_is_fetched_a_layer_at_a_time(tabs):
    """What is shown is that layer's, whatever was too much to send at once."""
    long = {"gpt": Generator(generator_bundle(max_length=1000, d_model=32, n_heads=16))}
    text = " ".join(["the cat sat on the mat"] * 128)
    app = service(long, ServingSettings(port=0), more_routers=routes.routers, public_paths=routes.public_paths())
    with background(app) as url, httpx.Client(base_url=url, timeout=120) as asks:
        body = {"model": "gpt", "input": text, "beam_size": 1, "max_tokens": 10, "format": "drawing"}
        refused = asks.post("/trace", json=body)
        assert refused.json()["error"]["code"] == "trace_too_large", "or this text is not long"
        assert asks.post("/trace", json={**body, "layers": [9]}).json()["error"]["code"] == "no_such_layer"
        tab = opened(tabs, f"#/watch?model=gpt&length=10&text={text.replace(' ', '+')}&layer=1", url=url, fresh=True)
        assert "This text is long: one layer is loaded at a time." in tab.locator(".earlier").inner_text()
        assert tab.locator("#head-grid .tile").count() == 16
        assert tab.locator("#attention-title").inner_text().startswith("Decoder self-attention, layer 1,")
        own = long["gpt"].trace(text, beam_size=1, do_sample=False, max_new_tokens=10, layers=[1])
        shown = saved(tab, "#decoding-steps")["attended"]
        weights = own.attention("decoder.1.self_attention")[0, own.steps[0].row]
        assert [one["weight"] for one in shown] == pytest.approx(weights[: len(shown)].tolist(), rel=2e-3, abs=1e-7)
        tab.locator(".earlier select").select_option("0")
        title = "() => document.querySelector('#attention-title').textContent.includes('layer 0')"
        tab.wait_for_function(title)
        assert "layer=0" in hash_of(tab)


@pytest.fixture(scope="module")
def long_url():
    long = {"gpt": Generator(generator_bundle(max_length=256))}
    app = service(long, ServingSettings(port=0), more_routers=routes.routers, public_paths=routes.public_paths())
    with background(app) as url:
        yield url


def continued(tab):
    """Let the model write 200 tokens."""
    tab.wait_for_selector(READY)
    tab.get_by_label("Tokens", exact=True).select_option("200")
    tab.get_by_role("button", name="Continue").click()
    tab.wait_for_function("() => document.querySelectorAll('#attention svg .unit').length > 400")


def test_200_tokens_are_drawn(tabs, long_url):
    tab = tabs("#/watch?model=gpt", url=long_url)
    continued(tab)
    assert tab.locator("[data-sequence=target] .token").count() == 200


@pytest.mark.slow
def test_the_page_is_soon_ready_and_200_tokens_are_soon_drawn(tabs, long_url):
    """The model's own time is not counted."""
    ready, drawn = [], []
    for _ in range(3):
        tab = tabs("#/watch?model=gpt", url=long_url, fresh=True)
        tab.wait_for_selector(".ask")
        ready.append(tab.evaluate("performance.now()"))
        continued(tab)
        now = "performance.now() - performance.getEntriesByName(`${location.origin}/trace`).at(-1).responseEnd"
        drawn.append(tab.evaluate(now))
        tab.close()
    assert min(ready) < 1000
    assert min(drawn) < 2000
