"""Models that the page knows nothing of: a family without attention, and one of an interface of its own."""

from dataclasses import replace

import pytest

from pipelines.tiny import GENERATION, LINES
from sightline.bundle import Bundle
from sightline.bundle.contents import TaskConfig
from sightline.data.tokenizers import train_bpe
from sightline.decoding import DecodingSettings
from sightline.model import registry
from sightline.model.interfaces import CausalLM
from sightline.pipelines import Chat, Generator
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes
from test_open_families import Bigram, BigramConfig
from tracing.test_page_in_browser import Shown

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pairs():
    """A model of pairs of tokens: no attention, no layers, no positions."""
    row = registry.Family("bigram", "A model of pairs", BigramConfig, Bigram, CausalLM, roles=("start", "end"))
    registry.register(row)
    tokenizer = train_bpe(LINES, vocab_size=280)
    model = Bigram(BigramConfig(vocab_size=tokenizer.vocab_size, d_model=8)).eval()
    yield Generator(Bundle(model, tokenizer, GENERATION, task_config=TaskConfig("language-model")))
    del registry.FAMILIES["bigram"]


@pytest.fixture(scope="module")
def talk(models):
    """A chat by a decoder alone."""
    few = DecodingSettings(max_new_tokens=6)
    return Chat(replace(models["gpt"].bundle, generation=few, task_config=TaskConfig("chat")))


@pytest.fixture(scope="module")
def pairs_url(pairs, talk, models):
    both = {"pairs": pairs, "gpt": models["gpt"], "talk": talk}
    app = service(both, ServingSettings(port=0), more_routers=routes.routers, public_paths=routes.public_paths())
    with background(app) as url:
        yield url


@pytest.mark.parametrize("beam", [1, 4])
def test_watch_draws_the_steps_of_a_model_without_heads(tabs, pairs, pairs_url, beam):
    tab = tabs(f"#/watch?model=pairs&text=the+cat&length=10&beam={beam}", url=pairs_url)
    tab.wait_for_selector(".watch[aria-busy=false] #decoding-steps .candidate")
    own = pairs.trace("the cat", beam_size=beam, do_sample=False, max_new_tokens=10)
    assert tab.locator("[data-sequence] .token").count() == len(own.source.tokens) + len(own.target.tokens)
    for step in own.steps[:3]:
        shown = tab.locator("#decoding-steps .candidate .number").all_text_contents()
        assert shown == [Shown(candidate.probability) for candidate in step.candidates]
        tab.keyboard.press("ArrowRight")
    assert "This model has no attention heads" in tab.locator("#attention").inner_text()
    for part in ("#head-grid", "#measure", "#head-ablation", "#attention .tools", ".problem"):
        assert tab.locator(part).is_hidden()
    assert tab.locator("#tree").is_visible() == (beam > 1)
    for key in ("k", "l", "m", "w", "Escape"):
        tab.keyboard.press(key)
    tab.locator("[data-sequence=target] .token").first.hover()
    tab.get_by_label("Prompt", exact=True).fill("a dog")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelector('[data-sequence=source]').textContent.includes('dog')")


def test_walk_through_says_that_it_has_no_stages(tabs, pairs_url):
    tab = tabs("#/walk?model=pairs&text=the+cat", url=pairs_url)
    tab.wait_for_selector(".walk .explanation")
    assert "Walk through has no stages for this model" in tab.locator(".walk").inner_text()
    assert tab.locator(".problem").is_hidden()


def test_an_interface_of_its_own_is_watched_but_not_walked_through(tabs, pairs_url):
    """Its attention is drawn as that of any other; what happens inside its layers is unknown."""

    def rename(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.body().replace(b'"CausalLM"', b'"Reversed"'))

    tab = tabs(url=pairs_url, fresh=True)
    tab.wait_for_selector(".ask")
    tab.route("**/trace", rename)
    tab.evaluate("location.hash = '#/watch?model=gpt&text=Once&length=10'")
    tab.wait_for_selector(".watch[aria-busy=false] #attention svg .unit")
    assert tab.locator("#head-grid .tile").count() == 8
    assert tab.locator(".strip-name").all_text_contents() == ["Input", "Output"]
    tab.evaluate("location.hash = '#/walk?model=gpt&text=Once'")
    tab.wait_for_selector("text=Walk through has no stages for this model")


def test_chat_by_a_decoder_alone_is_watched_and_walked_through(tabs, talk, pairs_url):
    """Its reply is no continuation of the message, though both are one sequence to the model."""
    tab = tabs("#/watch?model=talk&text=the+cat&beam=1", url=pairs_url)
    tab.wait_for_selector(".watch[aria-busy=false] #decoding-steps .candidate")
    own = talk.trace("the cat", beam_size=1)
    assert tab.locator("[data-sequence] .token").count() == len(own.source.tokens) + len(own.target.tokens)
    assert tab.locator(".watch .given").count() == 0
    shown = tab.locator("#decoding-steps .candidate .number").all_text_contents()
    assert shown == [Shown(candidate.probability) for candidate in own.steps[0].candidates]
    walk = tabs("#/walk?model=talk&text=the+cat", url=pairs_url)
    walk.wait_for_selector(".stage.drawn")
    assert set(walk.locator(".problem").all_text_contents()) == {""}
