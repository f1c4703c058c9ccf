"""The ordered stream: results in order, bounded look-ahead, nothing read before what came is answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.pipelines.segments import Segment, SegmentedText, process_stream


def run(blocks, look_ahead=4, work=None, split=str.split):
    work = work or (lambda parts: [part.upper() for part in parts])
    stream = process_stream(blocks, split=split, parts_of=lambda parts: parts, work=work, look_ahead=look_ahead)
    return ((item, results) for item, _, results in stream)


@given(blocks=st.lists(st.lists(st.text("ab ", max_size=8), max_size=6), max_size=4), look_ahead=st.integers(1, 7))
def test_results_are_in_order_whatever_the_look_ahead(blocks, look_ahead):
    assert list(run(blocks, look_ahead)) == [(text, text.upper().split()) for block in blocks for text in block]


def test_no_more_segments_than_the_look_ahead_are_processed_at_once():
    sizes = []

    def work(parts):
        sizes.append(len(parts))
        return parts

    list(run([["a b c d e f g", "h", "i j"]], look_ahead=3, work=work))
    assert max(sizes) <= 3


def test_texts_are_read_only_as_far_as_the_look_ahead():
    read = []

    def texts():
        for number in range(100):
            read.append(number)
            yield "a b"

    next(run([texts()], look_ahead=4))
    assert len(read) == 2


def test_block_is_answered_before_the_next_is_read():
    read = []

    def blocks():
        for block in (["a"], ["b"]):
            read.append(block)
            yield block

    assert next(run(blocks(), look_ahead=100)) == ("a", ["A"])
    assert read == [["a"]]


def test_texts_before_a_refused_one_are_answered():
    def split(text):
        if text == "bad":
            raise ValueError("refused")
        return [text]

    stream, answered = run([["a", "b", "bad", "c"]], split=split), []
    with pytest.raises(ValueError, match="refused"):
        answered.extend(stream)
    assert answered == [("a", ["A"]), ("b", ["B"])]


def segmented(text: str, *spans: tuple[int, int]) -> SegmentedText:
    return SegmentedText(text, [Segment(text[start:end], (start, end), ()) for start, end in spans])


def test_outputs_are_joined_with_what_stood_between_the_segments():
    joined, spans = segmented(" a.  b.\n\nc.\n", (1, 3), (5, 7), (9, 11)).join(["EINS", "ZWEI", "DREI"])
    assert joined == " EINS  ZWEI\n\nDREI\n"
    assert [joined[start:end] for start, end in spans] == ["EINS", "ZWEI", "DREI"]


@pytest.mark.parametrize(("targets", "joined"), [(["One.", "Two."], "One. Two."), (["一。", "二。"], "一。二。")])
def test_space_is_added_where_the_output_writes_spaces(targets, joined):
    assert segmented("你好。再见。", (0, 3), (3, 6)).join(targets)[0] == joined
