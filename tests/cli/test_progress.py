"""Progress: on stderr, only on a terminal, and only where it does not mix with results."""

import io
import sys
from collections.abc import Callable

import pytest

from sightline.cli.texts import (
    input_size,
    put_json,
    put_row,
    read_blocks,
    replace_non_finite,
    show_progress,
    show_status,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_terminal(monkeypatch) -> Callable[[], Terminal]:
    """Let stderr be a terminal. To be called in the test: pytest puts its own stream there before."""

    def replace_stderr() -> Terminal:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", stream := Terminal())
        return stream

    return replace_stderr


def read_through(give) -> list[str]:
    give("one\ntwo\n")
    return [text.text for block in show_progress(read_blocks(None)) for text in block]


def test_bar_counts_lines_and_passes_them_on(give, on_terminal):
    terminal = on_terminal()
    assert read_through(give) == ["one", "two"]
    assert "2 lines" in terminal.getvalue()


def test_results_go_to_stdout_while_the_bar_is_there(give, on_terminal, capsys):
    terminal = on_terminal()
    give("one\n")
    for _ in show_progress(read_blocks(None)):
        put_row("result")
    assert capsys.readouterr().out == "result\n"
    assert "result" not in terminal.getvalue()


def test_pipe_gets_no_bar(give, capsys):
    assert read_through(give) == ["one", "two"]
    assert capsys.readouterr() == ("", "")


def test_results_on_the_same_terminal_need_no_bar(give, on_terminal, monkeypatch):
    terminal = on_terminal()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert read_through(give) == ["one", "two"]
    assert terminal.getvalue() == ""


def test_size_of_a_file_is_known_and_that_of_a_pipe_is_not(give, monkeypatch, tmp_path):
    give("one\n")
    assert input_size() is None
    path = tmp_path / "lines"
    path.write_text("one\n")
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert input_size() == 4


def test_status_is_shown_on_a_terminal_only(on_terminal, monkeypatch):
    terminal = on_terminal()
    with show_status("scoring …"):
        pass
    assert "scoring" in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", quiet := io.StringIO())
    with show_status("scoring …"):
        pass
    assert quiet.getvalue() == ""


def test_numbers_that_json_does_not_have_are_null(capsys):
    put_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": {"d": -float("inf")}, "e": "ä\n"})
    assert capsys.readouterr().out == '{"a": null, "b": [null, 1.5], "c": {"d": null}, "e": "ä\\n"}\n'
    assert replace_non_finite("text") == "text"


def test_terminal_gets_what_it_can_show(monkeypatch):
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    put_row("ä", "日")
    assert data.getvalue() == "ä\t?\n".encode("latin-1")


def test_columns_stay_columns(capsys):
    put_row("a\tb", "c\nd", "")
    assert capsys.readouterr().out == "a\\tb\tc\\nd\t\n"
