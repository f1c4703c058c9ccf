"""Subtitles: numbers and times byte for byte, tags and lines kept."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.pipelines.documents import read_document

from . import TRANSLATORS, translate

TIMES = "00:00:01,000 --> 00:00:02,000"
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
    source = f"{soup}\n{TIMES}\n{soup}\n{TIMES}\n{soup}"
    parts = read_document(source, "srt").parts
    found = "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts)
    assert found == source


def test_sentence_over_two_cues_is_translated_as_one_and_divided():
    document = read_document(write([["This is a long", "sentence in"], ["two cues."], ["Next."]]), "srt")
    assert document.texts == ["This is a long sentence in two cues.", "Next."]
    rendered, _ = document.render([("Das ist ein langer Satz in zwei Teilen.", []), ("Weiter.", [])])
    assert rendered == write([["Das ist ein langer", "Satz in"], ["zwei Teilen."], ["Weiter."]])


def test_turns_of_a_dialogue_are_translated_one_by_one():
    assert translate(write([["- One two.", "- Three four."]]), "srt") == write([["- TWO. ONE", "- FOUR. THREE"]])


def test_tags_stay_on_their_words():
    assert translate(write([["one <i>two three</i>", "four."]]), "srt") == write([["FOUR. <i>THREE", "TWO</i> ONE"]])


@pytest.mark.parametrize("times", ["00:01.000 --> 00:02.000", "0:00:01.000 --> 0:00:02.000 align:start", f"  {TIMES}"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_times_may_be_written_as_in_webvtt(times, end):
    source = end.join(["WEBVTT", "", times, "One two.", "", times, "Three four.", ""])
    expected = end.join(["WEBVTT", "", times, "TWO. ONE", "", times, "FOUR. THREE", ""])
    assert translate(source, "srt") == expected


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        (f"1\n{TIMES}\n\nOne two.\n", f"1\n{TIMES}\n\nTWO. ONE\n"),
        (f"1\n{TIMES}\nOne.\n\nTwo.\n\n2\n{TIMES}\nThree.\n", f"1\n{TIMES}\nTWO.\n\nONE.\n\n2\n{TIMES}\nTHREE.\n"),
        (f"1\n{TIMES}\nOne two.\n2\n{TIMES}\nThree.\n", f"1\n{TIMES}\nTWO. ONE\n2\n{TIMES}\nTHREE.\n"),
        (f"1\n{TIMES}\n\n2\n{TIMES}\nOne two.", f"1\n{TIMES}\n\n2\n{TIMES}\nTWO. ONE"),
    ],
)  # fmt: skip
def test_blank_lines_end_a_cue_only_before_the_next(source, translated):
    assert translate(source, "srt") == translated


@pytest.mark.parametrize("source", ["film.srt", "1\nOne two.\n", "00:00:01,000 -> 00:00:02,000\nOne two.\n"])
def test_text_without_times_is_refused(source):
    with pytest.raises(InputError, match=r"no subtitle times such as .* found: give the content of a subtitle file"):
        read_document(source, "srt")


@pytest.mark.parametrize("source", ["", "\n", " \r\n"])
def test_empty_subtitles_stay_empty(source):
    assert translate(source, "srt") == source


@pytest.mark.parametrize(
    ("start", "texts"),
    [("00:00:05,000", ["One two three."]),
     ("00:00:05,001", ["One two", "three."]), ("00:05.001", ["One two", "three."])],
)  # fmt: skip
def test_sentence_does_not_run_over_a_pause(start, texts):
    source = f"1\n{TIMES}\nOne two\n\n2\n{start} --> 01:00:06,000\nthree.\n"
    assert read_document(source, "srt").texts == texts
