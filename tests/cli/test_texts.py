"""Texts from arguments and from stdin: every line, in order, unchanged."""

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cli.texts import Text, process_texts, read_blocks, read_line_blocks, read_text
from sightline.errors import InputError


def read_in(*blocks: bytes):
    """Return what reads these blocks, one at a time."""
    pending = iter([*blocks, b""])
    return lambda _: next(pending)


def texts(given_=None) -> list[str]:
    return [text.text for block in read_blocks(given_) for text in block]


@given(st.lists(st.binary(max_size=9)))
def test_lines_are_the_same_however_they_arrive(blocks):
    blocks = [block for block in blocks if block]  # an empty one is the end
    lines = [line for block in read_line_blocks(read_in(*blocks)) for line in block]
    whole = b"".join(blocks)
    assert b"\n".join(lines) == whole.removesuffix(b"\n") or not whole
    assert len(lines) == whole.count(b"\n") + (not whole.endswith(b"\n") and bool(whole))


def test_lines_are_given_as_soon_as_they_are_there():
    blocks = read_line_blocks(read_in(b"one\ntwo\nth", b"ree\n", b"four"))
    assert list(blocks) == [[b"one", b"two"], [b"three"], [b"four"]]


def test_only_a_line_feed_ends_a_line(give):
    give("a\u2028b\x0bc\rd\r\ne\n")
    assert texts() == ["a\u2028b\x0bc\rd", "e"]


def test_byte_order_mark_is_not_text(give):
    give(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert texts() == ["one", "\ufefftwo"]


def test_line_that_is_not_utf8_is_named(give):
    give(b"one\ntw\xf6\n")
    with pytest.raises(InputError, match=r"stdin:2: byte 3 is not UTF-8: convert the text"):
        texts()


def test_line_without_end_is_refused():
    with pytest.raises(InputError, match="stdin:2: this line is longer than 1 MB"):
        list(read_line_blocks(read_in(b"one\n", *[b"x" * (1 << 16)] * 17)))


def test_terminal_gets_instructions(give, capsys):
    give("one\n").terminal = True
    assert texts() == ["one"]
    assert capsys.readouterr() == ("", "One text per line; Ctrl-D ends.\n")


def test_arguments_leave_stdin_alone(give):
    give(b"\xff")
    assert texts(["one", "two\nlines"]) == ["one", "two\nlines"]


def test_dash_is_stdin_and_only_alone(give):
    give("one\n")
    assert texts(["-"]) == ["one"]
    assert texts(["-", "b"]) == ["-", "b"]


@pytest.mark.parametrize(("data", "text"), [("a\nb\n", "a\nb"), ("a\r\n", "a"), ("a", "a"), ("\n\n", "\n"), ("", "")])
def test_read_text_is_stdin_without_its_last_line_end(give, data, text):
    give(data)
    assert read_text(None) == whole_text_again(give, data) == text


def whole_text_again(give, data) -> str:
    give(data)
    return read_text("-")


def test_read_text_is_the_argument_and_nothing_from_a_terminal(give):
    give("never read").terminal = True
    assert read_text("a text\n") == "a text\n"
    assert read_text(None) == ""


def refusing_long(block: list[Text]) -> list[str]:
    if any(len(text.text) > 3 for text in block):
        raise InputError("too long")
    return [text.text.upper() for text in block]


def test_results_come_in_order_and_blank_texts_have_none(give):
    give("a\n\n \nb\n")
    found = [(text.number, answer) for text, answer in process_texts(read_blocks(None), refusing_long)]
    assert found == [(1, "A"), (2, None), (3, None), (4, "B")]


def test_error_names_the_location_and_comes_after_the_results_before_it():
    found = process_texts(read_blocks(["a", "b", "long", "c"]), refusing_long)
    assert [next(found)[1], next(found)[1]] == ["A", "B"]
    with pytest.raises(InputError, match=r"^text 3: too long$"):
        next(found)


def test_error_for_the_only_argument_has_no_location():
    with pytest.raises(InputError, match=r"^too long$"):
        list(process_texts(read_blocks(["long"]), refusing_long))


class Told(NamedTuple):
    """What a program in a pipe said, and how it ended."""

    answers: list[bytes]
    err: bytes
    code: int


@pytest.fixture(scope="module")
def told(folder) -> Told:
    """A program that is sent a line twice, and whose reader then leaves, as in `sightline classify … | head -2`."""
    command = [sys.executable, "-m", "sightline.cli.main", "classify", "--json", str(folder("classifier"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, **pipes) as program:
        answers = []
        for _ in range(2):
            program.stdin.write("tiny äöü\n".encode())
            program.stdin.flush()
            answers.append(program.stdout.readline())
        program.stdout.close()
        program.stdin.write(b"tiny models\n")
        program.stdin.close()
        return Told(answers, program.stderr.read(), program.wait())


def test_program_that_sends_a_line_and_waits_gets_its_answer(told):
    assert [json.loads(answer)["label"] in ("bad", "good") for answer in told.answers] == [True, True]


def test_reader_that_has_seen_enough_is_no_error(told):
    assert (told.err, told.code) == (b"", 1)


def test_output_is_utf8_whatever_the_locale_says(told):
    assert "äöü" in told.answers[0].decode("utf-8")
