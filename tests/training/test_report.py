"""What a run shows, on every kind of stream: numbers and texts as people read them."""

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.training.report import (
    MAX_SAMPLE_CHARACTERS,
    PlainReporter,
    Reporter,
    SafeStream,
    Sample,
    SilentReporter,
    TerminalReporter,
    escape_control,
    format_duration,
    format_value,
    reporter_for,
)

LOGGED = {
    "step": 1200, "epoch": 3.41, "loss": 2.1312, "learning_rate": 0.0012, "gradient_norm": 0.8, "skipped": 0,
    "tokens": 99_000, "tokens_per_second": 3410, "seconds": 29.7,
}  # fmt: skip
VALIDATED = {"step": 1200, "validation_loss": 1.98, "bleu": 31.26, "n_sentences": 1000, "signature": None}
SAMPLE = Sample("A man sleeps.", "Ein Mann schläft.", "Ein Mann schläft jetzt.")
NASTY = "[red]x[/red] :smile: \x1b[2J\r\n\u202e"


class Clock:
    """A time that only passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class ClosedTerminal(io.StringIO):
    """A terminal that has been closed."""

    def write(self, text):
        raise OSError(5, "Input/output error")

    def flush(self):
        raise BrokenPipeError


def run_through(reporter: Reporter) -> None:
    reporter.info("1.6 M parameters")
    reporter.warn("warm-up is long")
    reporter.begin(total_steps=4, step=0)
    reporter.tick(1, loss=2.5, tokens_per_second=3410, learning_rate=1e-3)
    reporter.log(LOGGED)
    reporter.log_validation(VALIDATED, [SAMPLE])
    reporter.end()
    reporter.end()


def drawn(*, width: int = 80) -> tuple[TerminalReporter, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    reporter = TerminalReporter(stream, clock=clock)
    reporter.console.width = width
    return reporter, stream, clock


@pytest.mark.parametrize("kind", [PlainReporter, TerminalReporter])
def test_every_reporter_is_one(kind):
    assert isinstance(kind(io.StringIO()), Reporter)
    assert isinstance(SilentReporter(), Reporter)


@pytest.mark.parametrize("kind", [PlainReporter, TerminalReporter])
def test_closed_terminal_does_not_end_the_run(kind):
    before = sys.stderr
    run_through(kind(ClosedTerminal()))
    closed = io.StringIO()
    closed.close()
    run_through(kind(closed))
    assert sys.stderr is before


def test_silent_reporter_keeps_everything():
    reporter = SilentReporter()
    run_through(reporter)
    assert (reporter.messages, reporter.warnings) == (["1.6 M parameters"], ["warm-up is long"])
    assert (reporter.records, reporter.validations) == ([LOGGED], [VALIDATED])
    assert (reporter.steps, reporter.samples) == ([1], [SAMPLE])


def test_plain_lines_show_everything_in_order():
    stream = io.StringIO()
    reporter = PlainReporter(stream)
    reporter.info("here we go")
    reporter.warn("careful")
    reporter.begin(total_steps=2400, step=1000)
    reporter.tick(1200, loss=2.0, tokens_per_second=3000.0, learning_rate=1e-3, total_steps=2400, seconds_left=750.0)
    reporter.log(LOGGED)
    reporter.log_validation(VALIDATED, [SAMPLE, Sample("", "", "")])
    assert stream.getvalue().splitlines() == [
        "here we go",
        "warning: careful",
        "step 1,200  epoch 3.4  loss 2.131  lr 1.2e-03  3,410 tokens/s  12 min left",
        "step 1,200  validation  loss 1.980  bleu 31.260  n sentences 1,000",
        "    source     A man sleeps.",
        "    output     Ein Mann schläft.",
        "    reference  Ein Mann schläft jetzt.",
        "    output     (empty)",
    ]


def test_skipped_updates_are_shown_if_there_are_any():
    stream = io.StringIO()
    PlainReporter(stream).log({"step": 3, "skipped": 2})
    assert stream.getvalue() == "step 3  skipped 2\n"


def test_remaining_time_is_not_shown_if_unknown():
    stream = io.StringIO()
    reporter = PlainReporter(stream)
    reporter.tick(3, loss=2.0, tokens_per_second=1.0, learning_rate=1e-3, total_steps=10, seconds_left=9)
    reporter.begin(total_steps=10, step=5)  # another run
    reporter.log({"step": 5})
    reporter.tick(6, loss=2.0, tokens_per_second=1.0, learning_rate=1e-3)
    reporter.log({"step": 6})
    assert "left" not in stream.getvalue()


def test_characters_that_an_encoding_lacks_are_escaped():
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    PlainReporter(stream).info("schläft …")
    assert buffer.getvalue() == b"schl\\xe4ft \\u2026\n"


def test_terminal_shows_messages_bar_metrics_and_sample():
    reporter, stream, _ = drawn()
    reporter.begin(total_steps=1000, step=0)
    reporter.log(LOGGED)
    reporter.tick(1200, loss=2.5, tokens_per_second=3410, learning_rate=1e-3, total_steps=2400, seconds_left=60)
    reporter.log_validation(VALIDATED, [SAMPLE])
    reporter.info("saved")
    last = stream.getvalue().rpartition("saved")[2]
    for text in (
        "1,200 of 2,400  1 min left",
        "epoch 3.4  loss 2.500  lr 1.0e-03  3,410 tokens/s",
        SAMPLE.output,
        "━",
    ):
        assert text in last
    reporter.end()


def test_terminal_without_a_known_end_has_no_bar():
    reporter, stream, _ = drawn()
    reporter.begin(total_steps=None, step=7)
    reporter.end()
    assert "step 7" in stream.getvalue()
    assert "━" not in stream.getvalue()


def test_terminal_is_drawn_at_a_bounded_rate():
    reporter, stream, clock = drawn()
    reporter.begin(total_steps=10_000, step=0)
    for step in range(1, 10_001):
        clock.now += 0.0005
        reporter.tick(step, loss=1.0, tokens_per_second=1.0, learning_rate=1.0, total_steps=10_000)
    assert 30 <= stream.getvalue().count(" of 10,000") <= 50
    reporter.end()


@pytest.mark.parametrize("width", [1, 20, 80])
def test_no_drawn_line_is_wider_than_the_terminal(width):
    reporter, _, _ = drawn(width=width)
    reporter.begin(total_steps=2400, step=0)
    reporter.log(LOGGED)
    reporter.log_validation({"step": 1}, [Sample("x" * 500, "日本" * 200, "y")])
    lines = reporter.console.render_lines(reporter.render())
    assert all(sum(segment.cell_length for segment in line) <= width for line in lines)
    reporter.end()


@pytest.mark.parametrize("kind", [PlainReporter, TerminalReporter])
def test_texts_cannot_control_the_terminal(kind):
    stream = io.StringIO()
    reporter = kind(stream)
    reporter.info(NASTY)
    reporter.warn(NASTY)
    reporter.begin(total_steps=2, step=0)
    reporter.log_validation({"step": 1, NASTY: NASTY}, [Sample(NASTY, NASTY, NASTY)])
    reporter.end()
    shown = stream.getvalue()
    assert r"[red]x[/red] :smile: \x1b[2J\r\n\u202e" in shown
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown


def test_spaces_and_joiners_that_languages_need_stay():
    stream = io.StringIO()
    PlainReporter(stream).info("12\u202f000\u00a0€ می\u200cخواهم")
    assert stream.getvalue() == "12\u202f000\u00a0€ می\u200cخواهم\n"


def test_cursor_is_never_left_hidden():
    """Not even by a process that is killed between two steps."""
    reporter, stream, _ = drawn()
    reporter.begin(total_steps=2, step=0)
    assert stream.getvalue().rfind("\x1b[?25h") > stream.getvalue().rfind("\x1b[?25l")
    reporter.end()


def test_terminal_can_show_one_run_after_another():
    reporter, stream, _ = drawn()
    reporter.end()
    for step in (3, 5):
        reporter.begin(total_steps=10, step=step)
        reporter.end()
        reporter.info("between")
    assert stream.getvalue().count("between\n") == 2
    assert "5 of 10" in stream.getvalue()


def test_what_others_write_to_stderr_is_put_above_the_bar_and_stderr_comes_back():
    before = sys.stderr
    reporter, stream, _ = drawn()
    reporter.begin(total_steps=2, step=0)
    sys.stderr.write("something else\n")
    reporter.end()
    assert "something else\n" in stream.getvalue()
    assert sys.stderr is before


def test_stream_decides_on_the_reporter(monkeypatch):
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setenv("TERM", "xterm")
        assert isinstance(reporter_for(terminal), TerminalReporter)
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(reporter_for(terminal), PlainReporter)
    os.close(ours)
    assert not SafeStream(terminal).isatty()
    assert isinstance(reporter_for(io.StringIO()), PlainReporter)
    assert isinstance(reporter_for(None), SilentReporter)


def test_rich_is_loaded_only_for_a_terminal():
    code = (
        "import sys, sightline.training.report as report; report.PlainReporter(sys.stderr).info('x'); "
        "print('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"), (0.4, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (160, "2 min 40 s"), (725, "12 min"), (3600, "1 h"),
        (11_100, "3 h 5 min"), (40_000, "11 h"), (90_000, "1 d 1 h"), (10**9, "11574 d"),
    ],
)  # fmt: skip
def test_duration_has_two_units_at_most(seconds, words):
    assert format_duration(seconds) == words


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("loss", float("nan"), "loss nan"), ("loss", 3, "loss 3.000"),
        ("bits_per_character", 1.2345, "bits per character 1.234"),
        ("tokens", 12_345, "tokens 12,345"), ("tiny", 1e-7, "tiny 1e-07"), ("exact", 0.0, "exact 0.000"),
        ("who", "me\n", "who me\\n"),
    ],
)  # fmt: skip
def test_value_is_shown_with_its_name(name, value, text):
    assert format_value(name, value) == text


@given(st.text(alphabet=st.characters(codec=None)))
def test_visible_text_holds_nothing_that_steers(text):
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in escape_control(text))


def test_long_text_is_cut():
    assert all(len(text) == MAX_SAMPLE_CHARACTERS for _, text in Sample("x" * 999, "\n" * 999, "z" * 999).parts())
