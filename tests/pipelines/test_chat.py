"""Conversation: the last turns are read, everything is remembered."""

import pytest

from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.pipelines import Chat, pipeline_for

from .tiny import BPE, chat_bundle, precise

HISTORIES = [["the cat"], ["a dog ran", "où", "est la gare"], ["x", ""], ["the", "house"]]


@pytest.fixture(scope="module")
def chat() -> Chat:
    return pipeline_for(precise(chat_bundle()))


@pytest.mark.parametrize(
    "way", [DecodingSettings(max_length=8), DecodingSettings(beam=3, max_length=8)], ids=["1", "3"]
)
def test_many_conversations_give_what_each_gives_alone(chat, way):
    alone = [chat.replies([history], settings=way)[0] for history in HISTORIES]
    assert chat.replies(HISTORIES, settings=way) == alone
    assert chat.reply(HISTORIES[0], beam=way.beam) == alone[0]


def test_only_the_last_turns_are_read(chat):
    assert chat.source(["one", "two", "three"]) == BPE.encode("two\nthree")


def test_line_break_within_a_turn_makes_no_turn(chat):
    assert chat.source(["one\ntwo", "three\r\nfour"]) == BPE.encode("one two\nthree four")


def test_oldest_turn_is_left_out_where_both_are_too_long(chat):
    assert chat.source(["z" * 30, "y" * 30]) == BPE.encode("y" * 30)
    with pytest.raises(InputError, match="the text has 60 tokens, more than the 48"):
        chat.reply(["a", "y" * 60])


def test_conversation_remembers_both_sides(chat):
    talk = chat.conversation()
    first = talk.say("the cat")
    assert first == chat.reply(["the cat"])
    second = talk.say("a dog", beam=2)
    assert second == chat.reply(["the cat", first, "a dog"], beam=2)
    assert talk.turns == ["the cat", first, "a dog", second]
    assert talk.say(" ") == ""
    assert len(talk.turns) == 4


def test_nothing_to_reply_to_is_said_plainly(chat):
    with pytest.raises(InputError, match="at least one turn"):
        chat.reply([])
    with pytest.raises(InputError, match="not one text"):
        chat.reply("hello")
    assert chat.reply(["hello", ""]) == ""
