"""Chat: the last turns are read, the whole history is kept."""

import pytest

from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.pipelines import Chat
from sightline.tasks import pipeline_for

from .tiny import BPE, chat_bundle, precise, record_encoded_texts

HISTORIES = [["the cat"], ["a dog ran", "où", "est la gare"], ["x", ""], ["the", "house"]]


@pytest.fixture(scope="module")
def chat() -> Chat:
    return pipeline_for(precise(chat_bundle()))


@pytest.mark.parametrize(
    "decoding", [DecodingSettings(max_new_tokens=8), DecodingSettings(beam_size=3, max_new_tokens=8)], ids=["1", "3"]
)
def test_batch_of_conversations_equals_one_by_one(chat, decoding):
    alone = [chat.replies([history], settings=decoding)[0] for history in HISTORIES]
    assert chat.replies(HISTORIES, settings=decoding) == alone
    assert chat.reply(HISTORIES[0], beam_size=decoding.beam_size) == alone[0]


def test_only_the_last_turns_are_read(chat):
    assert chat.encode_source(["one", "two", "three"]) == BPE.encode("two\nthree")


def test_line_break_within_a_turn_does_not_split_it(chat):
    assert chat.encode_source(["one\ntwo", "three\r\nfour"]) == BPE.encode("one two\nthree four")


def test_oldest_turn_is_dropped_if_both_are_too_long(chat):
    assert chat.encode_source(["z" * 30, "y" * 30]) == BPE.encode("y" * 30)
    with pytest.raises(InputError, match="the text has 60 tokens, more than the 48"):
        chat.reply(["a", "y" * 60])


@pytest.mark.parametrize(
    "respond",
    [
        lambda chat, history: chat.reply(history),
        lambda chat, history: chat.create_job(history, chat.generation),
        lambda chat, history: chat.trace(history),
    ],
    ids=["reply", "create_job", "trace"],
)
def test_text_is_tokenized_once(chat, respond, monkeypatch):
    texts = record_encoded_texts(monkeypatch)
    respond(chat, ["the cat", "a dog ran"])
    assert texts == ["the cat\na dog ran"]


def test_context_that_is_too_long_is_tokenized_once_per_length(chat, monkeypatch):
    texts = record_encoded_texts(monkeypatch)
    chat.reply(["z" * 30, "y" * 30])
    assert texts == ["z" * 30 + "\n" + "y" * 30, "y" * 30]


def test_conversation_keeps_both_sides(chat):
    talk = chat.conversation()
    first = talk.say("the cat")
    assert first == chat.reply(["the cat"])
    second = talk.say("a dog", beam_size=2)
    assert second == chat.reply(["the cat", first, "a dog"], beam_size=2)
    assert talk.turns == ["the cat", first, "a dog", second]
    assert talk.say(" ") == ""
    assert len(talk.turns) == 4


def test_missing_turns_are_refused(chat):
    with pytest.raises(InputError, match="at least one turn"):
        chat.reply([])
    with pytest.raises(InputError, match="expected a list of turns, not one text"):
        chat.reply("hello")
    assert chat.reply(["hello", ""]) == ""
