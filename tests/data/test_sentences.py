"""Sentences by rules: where they end, and that nothing between them is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.data.sentences import cut_sentence, split_lines, split_sentences

EXAMPLES = [
    ["Hello there.", "How are you?", "I am fine!"],
    ["Dr. Smith met J. R. Tolkien on Jan. 5.", "He left."],
    ["Am 14. März kam er.", "Das war gut."],
    ["Er wohnt im 3. Stock.", "Dort ist es hell."],
    ['He said "Go."', "Then he left.", '"What?" he asked.'],
    ["Er sagte: »Geh!«", "Dann ging er."],
    ["„Geh!“", "Dann ging er."],
    ["« Bonjour ! » dit-il.", "Puis il partit."],
    ["¿Qué hora es?", "¡Son las dos!", "El Sr. López llegó."],
    ["Pi is 3.14.", "See www.example.org/a.b.", "Mail a@b.de.", "Good."],
    ["Wait... what?", "I see…", "Yes."],
    ["i came.", "i saw.", "e.g. this"],
    ["1. Open the box.", "2. Close it."],
    ["It was in 1990.", "He left at 5 p.m.", "Then No. 5 came.", "No.", "I did not."],
    ["Hunde, z. B. Pudel, bellen.", "Katzen u. a. nicht."],
    ["(This is one.)", "That is two."],
    ["هل أنت بخير؟", "نعم."],
    ["यह एक है।", "वह दो है।"],
]
UNSPACED = [
    ["今日は。", "元気ですか？", "はい！"],
    ["「行く。」と言った。", "それから寝た。"],
    ["你好。", "你叫什么名字？"],
]
ODD = st.text(st.sampled_from("aB.!?…。」と \n\t\r«»\"'(1é14.Dr\u2028-"), max_size=40)


@pytest.mark.parametrize("sentences", EXAMPLES, ids=lambda sentences: sentences[0])
def test_sentences_are_found(sentences):
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@pytest.mark.parametrize("sentences", UNSPACED, ids=lambda sentences: sentences[0])
def test_sentences_of_scripts_without_spaces_are_found(sentences):
    text = "".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@given(ODD)
def test_only_white_space_stands_between_sentences(text):
    end = 0
    for start, next_end in split_sentences(text):
        assert text[end:start].strip() == ""
        assert text[start:next_end].strip() == text[start:next_end] != ""
        end = next_end
    assert text[end:].strip() == ""


def test_line_breaks_end_sentences():
    text = "one\ntwo\r\n\n three\tfour"
    assert [text[start:end] for start, end in split_lines(text)] == ["one", "two", "three", "four"]
    assert split_sentences(text) == split_lines(text)


def word_offsets(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]


def test_long_sentence_is_cut_after_punctuation_and_else_at_spaces():
    text = "One two three, four five six seven; eight nine ten eleven twelve thirteen"
    parts = [text[start:end] for start, end in cut_sentence(text, limit=4, offsets=word_offsets)]
    assert parts == ["One two three,", "four five six seven;", "eight nine ten eleven", "twelve thirteen"]


@given(text=st.text("ab ,.漢", min_size=1, max_size=60).filter(str.strip), limit=st.integers(1, 9))
def test_parts_of_a_sentence_fit_and_lose_nothing(text, limit):
    """One token for every character: the hardest case, as nothing but the limit decides."""
    parts = cut_sentence(text, limit=limit, offsets=lambda part: [(at, at + 1) for at in range(len(part))])
    assert all(0 < end - start <= limit for start, end in parts) or len(parts) == len([c for c in text if c.strip()])
    joined = "".join(text[start:end] for start, end in parts)
    assert joined.replace(" ", "") == text.replace(" ", "")
