"""Subtitles: numbers and times byte for byte, tags and lines kept."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.pipelines.documents import read_document

from . import TRANSLATORS, translate

HEAD = re.compile(r"^(?:\d+|\d\d:.*)\r?$", re.MULTILINE)
TAG = re.compile(r"</?[a-z][^>]*>|\{[^}]*\}")
LINE = st.sampled_from(
    ["One two", "three four.", "<i>five six</i>", "<b>seven", "eight</b> nine!", "- Ten.", "- Eleven <i>two</i>",
     "{\\an8}Up",
     '<font color="#fff">red</font> one', "...and", "a < b"]
)  # fmt: skip
CUES = st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=5)


def write(cues: list[list[str]], end: str = "\n") -> str:
    return end.join(
        f"{number}{end}00:00:0{number},000 --> 00:00:0{number},900{end}{end.join(lines)}{end}"
        for number, lines in enumerate(cues, 1)
    )


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=TRANSLATORS)
@given(cues=CUES, end=st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=40)
def test_times_and_tags_of_any_subtitles_stay(translator, cues, end):
    source = write(cues, end)
    translated = translate(source, "srt", translator)
    assert HEAD.findall(translated) == HEAD.findall(source)
    for before, after in zip(source.split(end * 2), translated.split(end * 2), strict=True):
        assert Counter(TAG.findall(after)) == Counter(TAG.findall(before))
        assert len(after.split(end)) <= len(before.split(end))


@given(st.text(st.sampled_from("1:0,->\n\r ab<i/>{}\\"), max_size=40))
def test_parts_of_subtitles_are_their_source(soup):
    parts = read_document(soup, "srt").parts
    assert "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts) == soup


def test_sentence_over_two_cues_is_translated_as_one_and_divided():
    document = read_document(write([["This is a long", "sentence in"], ["two cues."], ["Next."]]), "srt")
    assert document.texts == ["This is a long sentence in two cues.", "Next."]
    rendered, _ = document.render([("Das ist ein langer Satz in zwei Teilen.", []), ("Weiter.", [])])
    assert rendered == write([["Das ist ein langer", "Satz in"], ["zwei Teilen."], ["Weiter."]])


def test_turns_of_a_dialogue_are_translated_one_by_one():
    assert translate(write([["- One two.", "- Three four."]]), "srt") == write([["- TWO. ONE", "- FOUR. THREE"]])


def test_tags_stay_on_their_words():
    assert translate(write([["one <i>two three</i>", "four."]]), "srt") == write([["FOUR. <i>THREE", "TWO</i> ONE"]])
