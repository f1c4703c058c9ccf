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


WEBVTT = """WEBVTT - The title of this file
Kind: captions

STYLE
::cue(b) { color: red }

REGION
id:fred
width:40%

NOTE One note
of two lines

the first cue
00:01.000 --> 00:02.000 align:start position:10%
<v Fred>One <c.loud>two</c> three.

NOTE Another note

2
00:02.000 --> 00:03.000 region:fred
- Four five.
- Six seven.

NOTE

a name: two
01:00:03.000 --> 01:00:04.000
One <00:03.500>two.
"""
TRANSLATED = (
    WEBVTT.replace("One <c.loud>two</c> three.", "THREE. <c.loud>TWO</c> ONE")
    .replace("Four five.", "FIVE. FOUR")
    .replace("Six seven.", "SEVEN. SIX")
    .replace("One <00:03.500>two.", "<00:03.500>TWO. ONE")
)


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_the_texts_of_webvtt_are_translated(start, end):
    source, translated = (start + text.replace("\n", end) for text in (WEBVTT, TRANSLATED))
    assert translate(source, "srt") == translated


@pytest.mark.parametrize("start", ["WEBVTTX", "A WEBVTT", "webvtt"])
def test_only_the_first_line_makes_a_file_webvtt(start):
    source = f"{start}\n\n1\n{TIMES}\nOne.\n\nTwo.\n\n2\n{TIMES}\nThree.\n"
    assert read_document(source, "srt").texts == ["One. Two.", "Three."]


def test_sentence_over_two_cues_of_webvtt_leaves_what_is_between_them():
    between = "\n\nNOTE 1 --> 2\n\nthe second\n00:02.000 --> 00:03.000 align:end\n"
    document = read_document(f"WEBVTT\n\n00:01.000 --> 00:02.000\nThis is a long{between}sentence.\n", "srt")
    assert document.texts == ["This is a long sentence."]
    rendered, notes = document.render([("Das ist ein langer Satz.", [])])
    assert rendered == f"WEBVTT\n\n00:01.000 --> 00:02.000\nDas ist ein{between}langer Satz.\n"
    assert not notes


def test_times_within_a_cue_stay_in_order():
    source = "WEBVTT\n\n00:01.000 --> 00:04.000\nOne <00:02.000>two <00:03.000><i>three</i>.\n"
    found = translate(source, "srt")
    assert found == "WEBVTT\n\n00:01.000 --> 00:04.000\n<00:02.000><i>THREE</i>. <00:03.000>TWO ONE\n"


@pytest.mark.parametrize("source", ["WEBVTT", "WEBVTT\n\nNOTE Nothing is said.\n", "\ufeffWEBVTT\r\n"])
def test_webvtt_without_cues_stays(source):
    assert translate(source, "srt") == source


@given(
    cues=CUES.filter(bool),
    names=st.lists(st.sampled_from(["", "a name\n", "7\n", "NOTE one two\n\n"]), min_size=5, max_size=5),
)
@settings(max_examples=40)
def test_texts_of_webvtt_are_those_of_the_same_subtitles(cues, names):
    plain = write(cues)
    body = re.sub(r"(?m)^(\d)\n(?=\d\d:)", lambda match: names[int(match[1]) - 1], plain)
    assert read_document(f"WEBVTT\n\n{body}", "srt").texts == read_document(plain, "srt").texts


@given(st.text(st.sampled_from("1:0,->\n\r ab<i/>{}\\"), max_size=40))
def test_parts_of_webvtt_are_their_source(soup):
    source = f"WEBVTT\n{soup}\n{TIMES}\n{soup}\n{TIMES}\n{soup}"
    parts = read_document(source, "srt").parts
    found = "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts)
    assert found == source
