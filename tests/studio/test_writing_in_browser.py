"""Write and Chat: texts and probabilities are those that the interface gives, and nothing is lost on the way."""

import dataclasses
import json
import math
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from browser import PATIENCE, hash_of, settle, until
from pipelines.tiny import LINES, chat_bundle, generator_bundle
from sightline.data.tokenizers import train_characters
from sightline.decoding import DecodingSettings
from sightline.pipelines import Chat, Generator
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes
from tracing.test_page_in_browser import Shown

pytestmark = pytest.mark.browser

TEXT = "the cat"
CHARACTERS = train_characters(LINES)  # every token is a letter: whatever is written can be read and chosen


def number(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.fixture(scope="module")
def letters_url():
    """A server with a model that writes letters."""
    models = {"letters": Generator(generator_bundle(CHARACTERS))}
    with background(studio_of(models)) as url:
        yield url


def studio_of(models):
    return service(models, ServingSettings(port=0), more_routers=routes.routers, public_paths=routes.public_paths())


def opened(tabs, url, address="", **options):
    page = tabs(f"#/write?model=letters&text={TEXT}&seed=3&max_tokens=6{address}", url=url, **options)
    page.wait_for_selector(".write textarea")
    return page


def story(page) -> str:
    return page.locator(".write textarea").input_value()


def settled(page) -> None:
    page.wait_for_selector("button:has-text('Continue'):not(:disabled)")


def continued(page, url, **more) -> list[str]:
    body = {"model": "letters", "prompt": TEXT, "temperature": 0.8, "top_k": 0, "top_p": 1, "seed": 3, "max_tokens": 6}
    answer = page.request.post(f"{url}/v1/completions", data={**body, **more}).json()
    return [choice["text"] for choice in answer["choices"]]


def test_views_are_offered_to_models_that_can_do_it(tabs, models):
    page = tabs("#/positions?model=phrases")
    expected = {"phrases": [], "talk": ["Chat"], "gpt": ["Write"], "bert": ["Fill"], "tags": ["Classify"]}
    for name, own in expected.items():
        page.get_by_label("Model", exact=True).select_option(name)
        until(page, lambda name=name: name in page.title())
        offered = page.locator("#bar nav a").all_text_contents()
        assert [title for title in offered if title in ("Write", "Chat", "Fill", "Classify")] == own
        assert {"Positions", "Words"} <= set(offered)


def test_the_focus_is_never_lost(tabs, letters_url):
    """What had it may vanish or be disabled by its own click: then the text has it."""
    page = opened(tabs, letters_url, "&probabilities=1")
    area = page.locator(".write textarea")
    focused = "document.activeElement.localName"
    page.locator(".others .pick").first.click()  # an alternative: the list of them goes
    until(page, lambda: story(page) != TEXT)
    assert page.evaluate(focused) == "textarea"
    page.get_by_role("button", name="Undo").click()  # there is nothing more to undo
    until(page, lambda: story(page) == TEXT)
    assert page.evaluate(focused) == "textarea"
    area.blur()
    page.get_by_role("button", name="Redo").click()
    assert page.evaluate(focused) == "textarea"


def test_going_on_writes_what_the_interface_answers(tabs, letters_url):
    page = opened(tabs, letters_url)
    page.get_by_role("button", name="Continue").click()
    until(page, lambda: story(page) != TEXT)
    settled(page)
    assert story(page) == TEXT + continued(page, letters_url)[0]
    page.get_by_role("button", name="Undo").click()
    assert story(page) == TEXT
    page.get_by_role("button", name="Redo").click()
    assert story(page) == TEXT + continued(page, letters_url)[0]


def test_knobs_are_sent_and_remembered(tabs, letters_url):
    page = opened(tabs, letters_url)
    page.get_by_label("Temperature").fill("1.5")
    page.get_by_label("Top k").fill("3")
    page.get_by_label("Top p").fill("0.9")
    page.get_by_label("Tokens").fill("4")
    with page.expect_request("**/v1/completions") as caught:
        page.locator(".write textarea").press("Control+Enter")
    sent = caught.value.post_data_json
    chosen = {"temperature": 1.5, "top_k": 3, "top_p": 0.9, "max_tokens": 4, "seed": 3}
    assert chosen.items() <= sent.items()
    settled(page)
    assert story(page) == TEXT + continued(page, letters_url, **chosen)[0]
    again = tabs(hash_of(page), url=letters_url)
    again.wait_for_selector(".write textarea")
    assert again.get_by_label("Top k").input_value() == "3"
    assert story(again) == story(page)


def test_three_ways_are_offered_and_taken_by_keys(tabs, letters_url):
    page = opened(tabs, letters_url)
    page.get_by_role("button", name="Three options").click()
    page.wait_for_selector(".continuation:nth-child(3)")
    settled(page)
    expected = continued(page, letters_url, n=3)
    assert page.locator(".continuation").all_text_contents() == [text or "…" for text in expected]
    page.locator(".write textarea").focus()
    page.keyboard.press("Escape")
    assert page.locator(".continuation").count() == 0
    assert story(page) == TEXT
    page.get_by_role("button", name="Three options").click()
    page.wait_for_selector(".continuation:nth-child(3)")
    settled(page)
    page.locator(".write textarea").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert story(page) == TEXT + expected[1]
    page.keyboard.press("Control+z")
    assert story(page) == TEXT


def test_without_chance_three_ways_are_those_of_a_beam(tabs, letters_url):
    page = opened(tabs, letters_url, "&temperature=0")
    page.get_by_role("button", name="Three options").click()
    page.wait_for_selector(".continuation:nth-child(3)")
    settled(page)
    body = {"model": "letters", "prompt": TEXT, "temperature": 0, "beam_size": 3, "n": 3, "max_tokens": 6}
    answer = page.request.post(f"{letters_url}/v1/completions", data=body).json()
    expected = [choice["text"] for choice in answer["choices"]]
    assert page.locator(".continuation").all_text_contents() == [text or "…" for text in expected]
    page.locator(".continuation").nth(2).click()
    assert story(page) == TEXT + expected[2]


def test_probabilities_are_those_of_the_trace(tabs, letters_url):
    page = opened(tabs, letters_url, "&probabilities=1")
    page.wait_for_selector(".probability")
    body = {"model": "letters", "input": "", "target": TEXT, "activations": [], "logit_lens": False, "candidates": 8}
    steps = page.request.post(f"{letters_url}/trace", data=body).json()["steps"]
    shown = [number(text) for text in page.locator(".probability .number").all_text_contents()]
    assert shown == pytest.approx([step["candidates"][step["chosen"]]["probability"] for step in steps], rel=0.006)
    page.locator(".probability").nth(4).hover()
    rows = [number(text) for text in page.locator(".others .number").all_text_contents()]
    assert rows == pytest.approx([one["probability"] for one in steps[4]["candidates"]], rel=0.006)


def test_another_candidate_is_a_branch(tabs, letters_url):
    page = opened(tabs, letters_url, "&probabilities=1")
    page.wait_for_selector(".probability")
    page.locator(".probability").nth(4).click()
    body = {"model": "letters", "input": "", "target": TEXT, "activations": [], "logit_lens": False, "candidates": 8}
    step = page.request.post(f"{letters_url}/trace", data=body).json()["steps"][4]
    choice = page.locator(".others .pick").first
    others = [one["text"] for place, one in enumerate(step["candidates"]) if place != step["chosen"]]
    choice.click()
    assert story(page) == TEXT[:4] + next(text for text in others if len(text) == 1)
    until(page, lambda: page.locator(".probability").count() == 5)
    page.get_by_role("button", name="Undo").click()
    assert story(page) == TEXT


def test_see_inside_opens_watch_with_the_text(tabs, letters_url):
    page = opened(tabs, letters_url)
    address = urlsplit(page.locator(".inside").get_attribute("href").removeprefix("#"))
    assert address.path == "/watch"
    assert parse_qs(address.query) == {"model": ["letters"], "text": [TEXT]}


def test_stop_keeps_what_was_written(tabs):
    """A model that waits in the middle of its text is stopped there; the page goes on from what it has written."""
    long = DecodingSettings(min_new_tokens=40, max_new_tokens=40)
    generator = Generator(generator_bundle(CHARACTERS))
    chat = Chat(dataclasses.replace(chat_bundle(), generation=long))
    gates = Gate(generator.model), Gate(chat.model)
    with background(studio_of({"letters": generator, "talk": chat})) as url:
        page = opened(tabs, url, "&max_tokens=40", fresh=True)
        page.get_by_label("Tokens").fill("40")
        page.get_by_role("button", name="Continue").click()
        until(page, lambda: len(story(page)) > len(TEXT) + 1)
        page.keyboard.press("Escape")
        settled(page)
        written = story(page)
        assert len(TEXT) + 1 < len(written) < len(TEXT) + 40
        page.get_by_role("button", name="Undo").click()
        assert story(page) == TEXT
        gates[0].open()
        talk = tabs("#/chat?model=talk", url=url, fresh=True)
        talk.get_by_label("Message").fill("hello")
        talk.get_by_role("button", name="Send", exact=True).click()
        talk.wait_for_selector(".turn:not(.own)")
        talk.keyboard.press("Escape")
        talk.wait_for_selector("button:has-text('Stop'):disabled")
        assert talk.locator(".turn").count() == 2
        talk.get_by_label("Message").fill("hello")
        talk.keyboard.press("Enter")
        talk.wait_for_selector(".turn:nth-child(4)")
        talk.get_by_role("button", name="Stop").click()
        talk.wait_for_selector("button:has-text('Stop'):disabled")
        gates[1].open()


class Gate:
    """Lets a model take some steps, and no more before it is opened."""

    def __init__(self, model, n_steps: int = 8):
        self.n_left, self.opened, self.step = n_steps, threading.Event(), model.step
        model.step = self

    def __call__(self, *arguments, **options):
        self.n_left -= 1
        if self.n_left < 0:
            self.opened.wait(PATIENCE / 1000)
        return self.step(*arguments, **options)

    def open(self) -> None:
        self.opened.set()


def say(page, text: str, turns: int) -> None:
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")
    page.wait_for_selector(f".turn:nth-child({turns})")
    page.wait_for_selector("button:has-text('Stop'):disabled")


def test_replies_are_those_of_the_interface_with_all_that_was_said(tabs, http):
    page = tabs("#/chat?model=talk")
    page.wait_for_selector(".chat")
    say(page, "hello", 2)
    first = reply(http, ["hello"])
    say(page, "the cat", 4)
    second = reply(http, ["hello", first, "the cat"])
    said = ["hello", first or "…", "the cat", second or "…"]
    assert page.locator(".turn span").all_text_contents() == said
    query = parse_qs(urlsplit(page.locator(".turn .inside").last.get_attribute("href").removeprefix("#")).query)
    assert query == {
        "model": ["talk"],
        "text": ["the cat"],
        "before": [json.dumps(["hello", first], separators=(",", ":"))],
    }
    again = tabs(hash_of(page))
    again.wait_for_selector(".turn")
    assert again.locator(".turn span").all_text_contents() == said
    again.get_by_role("button", name="New conversation").click()
    assert again.locator(".turn").count() == 0


def test_see_inside_reads_what_the_reply_was_made_of(tabs, models):
    page = tabs("#/chat?model=talk")
    page.wait_for_selector(".chat")
    say(page, "Hello", 2)
    say(page, "Bye", 4)
    page.locator(".turn .inside").last.click()
    page.wait_for_selector(".watch[aria-busy=false]")
    turns = ["Hello", models["talk"].reply(["Hello"]), "Bye"]
    own = models["talk"].trace(turns, beam_size=4)
    assert len(own.source.text.split("\n")) == len(turns)
    read = page.locator("#sentence [data-sequence=source] .token").all_text_contents()
    assert len(read) == len(own.source.tokens)
    assert Shown(math.exp(own.log_probability)).stands_in(page.locator(".model-output").inner_text())
    assert page.locator(".earlier .token").all_text_contents() == turns[:2]
    page.get_by_role("button", name="Remove").click()
    alone = models["talk"].trace("Bye", beam_size=4)
    until(page, lambda: Shown(math.exp(alone.log_probability)).stands_in(page.locator(".model-output").inner_text()))
    assert "before" not in hash_of(page)


def test_what_was_said_before_is_a_conversation_again(tabs):
    page = tabs('#/watch?model=talk&text=Bye&before=["Hello","Hi"]')
    page.wait_for_selector(".watch[aria-busy=false]")
    page.locator("nav").get_by_text("Chat", exact=True).click()
    page.wait_for_selector(".chat .turn")
    assert page.locator(".turn span").all_text_contents() == ["Hello", "Hi"]
    assert page.get_by_label("Message").input_value() == "Bye"
    assert "before=" not in hash_of(page)
    say(page, "Bye", 4)
    assert "before=" not in page.locator("nav").get_by_text("Watch", exact=True).get_attribute("href")


def reply(http, turns: list[str]) -> str:
    messages = [{"role": ("user", "assistant")[k % 2], "content": text} for k, text in enumerate(turns)]
    answer = http.post("/v1/chat/completions", json={"model": "talk", "messages": messages}).json()
    return answer["choices"][0]["message"]["content"]


def test_what_is_refused_is_said_and_can_be_mended(tabs):
    page = tabs("#/chat?model=talk")
    page.wait_for_selector(".chat")
    page.get_by_label("Message").fill("cat " * 5000)
    page.keyboard.press("Enter")
    page.wait_for_selector(".problem:not(:empty)")
    assert "tokens" in page.locator(".problem").inner_text()
    assert page.locator(".turn").count() == 0
    assert page.get_by_label("Message").input_value().startswith("cat cat")


@pytest.mark.parametrize(
    "address", ["#/write?model=gpt&text=the cat sat on a mat&probabilities=1", "#/chat?model=talk"]
)
def test_a_phone_never_scrolls_sideways(tabs, address):
    page = tabs(address, width=390)
    page.wait_for_selector(".probability" if "write" in address else ".chat")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
