r"""Texts in and results out: arguments or lines of stdin, one line per result, and a progress bar on stderr.

Only \n (or \r\n) ends a line, as other programs count lines, so that line 7 of the output belongs to line 7 of the
input. Blank lines need no model. Lines are answered before more are read, as a program at the other end of a pipe may
send one line and wait. Knows no model.
"""

import json
import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from sightline.errors import InputError
from sightline.storage import ESCAPES

BLOCK_BYTES = 1 << 15
"""Bytes read at a time: the sentences that are sorted into batches together."""

MAX_LINE_BYTES = 1 << 20

Result = TypeVar("Result")


class Text(NamedTuple):
    """An input text and its location."""

    text: str
    location: str | None
    """None for a single argument."""
    number: int
    """Counted from 1."""

    @property
    def blank(self) -> bool:
        """Whether it has nothing but white space."""
        return not self.text.strip()


def read_blocks(given: Sequence[str] | None) -> Iterator[list[Text]]:
    """Yield the texts given as arguments, or those of stdin if there are none or the only one is "-"."""
    if given and list(given) != ["-"]:
        several = len(given) > 1
        yield [Text(text, f"text {number}" if several else None, number) for number, text in enumerate(given, 1)]
        return
    if sys.stdin.isatty():
        sys.stderr.write("One text per line; Ctrl-D ends.\n")
    number = 1
    for lines in read_line_blocks(sys.stdin.buffer.read1):  # type: ignore[union-attr]
        yield [decode_line(line, at) for at, line in enumerate(lines, number)]
        number += len(lines)


def read_line_blocks(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """Yield lines without their ends, in blocks as `read` returns them."""
    rest, n_lines = b"", 0
    while block := read(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        n_lines += len(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(f"stdin:{n_lines + 1}: this line is longer than 1 MB: split it")
        if lines:
            yield lines
    if rest:
        yield [rest]


def decode_line(line: bytes, number: int) -> Text:
    """Decode a line of stdin."""
    bom = b"\xef\xbb\xbf" if number == 1 else b""
    location = f"stdin:{number}"
    return Text(decode_utf8(line.removeprefix(bom).removesuffix(b"\r"), location), location, number)


def decode_utf8(data: bytes, location: str) -> str:
    """Decode bytes, or name the first invalid one."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{location}: byte {error.start + 1} is not UTF-8: convert the text (iconv -t UTF-8)"
        ) from None


def read_text(given: str | None) -> str:
    """Return the argument, or all of stdin without its last line end; nothing if stdin is a terminal."""
    if given is not None and given != "-":
        return given
    if given is None and sys.stdin.isatty():
        return ""
    return decode_utf8(sys.stdin.buffer.read(), "stdin").removesuffix("\n").removesuffix("\r")


def process_texts(
    blocks: Iterator[list[Text]], work: Callable[[list[Text]], Sequence[Result]]
) -> Iterator[tuple[Text, Result | None]]:
    """Yield each text with its result, None for a blank one.

    If a text is refused, the results before it are yielded first, and the error names its location.
    """
    from sightline.pipelines.segments import process_stream  # the model has been loaded by now, with torch

    for text, _, results in process_stream(
        blocks,
        split=lambda text: () if text.blank else (text,),
        parts_of=lambda parts: parts,
        work=lambda texts: process_block(texts, work),
    ):
        yield text, results[0] if results else None


def process_block(texts: list[Text], work: Callable[[list[Text]], Sequence[Result]]) -> Iterator[Result]:
    """Yield the results of a block: all at once, or one by one if a text is refused."""
    if not texts:
        return
    try:
        results = work(texts)
    except InputError as error:
        if len(texts) == 1:
            raise add_location(error, texts[0]) from None
        for text in texts:
            yield from process_block([text], work)
    else:
        yield from results


def add_location(error: InputError, text: Text) -> InputError:
    """Prefix an error with the location of its text."""
    return error if text.location is None else InputError(f"{text.location}: {error}")


COLUMN_ESCAPES = {**ESCAPES, ord("\t"): r"\t"}


def put(text: str) -> None:
    """Write to stdout and flush. A terminal gets the characters it can show; all else gets UTF-8."""
    stream: Any = sys.stdout
    if (stream.encoding or "utf-8").lower() != "utf-8":
        stream.reconfigure(**({"errors": "replace"} if stream.isatty() else {"encoding": "utf-8"}))
    stream.write(text)
    stream.flush()


def put_line(text: str) -> None:
    r"""Print a text as one line, with its line breaks escaped as \n."""
    put(text.translate(ESCAPES) + "\n")


def put_row(*cells: str) -> None:
    """Print texts as tab-separated columns of one line, with their line breaks and tabs escaped."""
    put("\t".join(cell.translate(COLUMN_ESCAPES) for cell in cells) + "\n")


def put_json(entries: Mapping[str, object]) -> None:
    """Print an object as one line of JSON; NaN and infinity become null, as JSON has neither. Line breaks are kept."""
    put(json.dumps(replace_non_finite(entries), ensure_ascii=False, allow_nan=False) + "\n")


def replace_non_finite(value: object) -> object:
    """Replace NaN and infinity by None, at any depth."""
    if isinstance(value, Mapping):
        return {key: replace_non_finite(entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [replace_non_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_progress(blocks: Iterator[list[Text]]) -> Iterator[list[Text]]:
    """Yield the blocks and show how many lines are done: a block is done when the next one is requested."""
    if not should_show_progress():
        yield from blocks
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # By default, rich would redirect stdout to the console of the bar.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("reading", total=input_size())
        for block in blocks:
            yield block
            if block:
                bar.update(task, advance=count_bytes(block), description=f"{block[-1].number:,} lines")


def should_show_progress() -> bool:
    """Return whether a user watches stderr but neither sees the results nor types the input."""
    return sys.stderr.isatty() and not sys.stdout.isatty() and not sys.stdin.isatty()


def count_bytes(block: Sequence[Text]) -> int:
    """Return the size of some lines in the input file."""
    return sum(len(text.text.encode("utf-8", errors="replace")) + 1 for text in block)


def input_size() -> int | None:
    """Return the size of stdin in bytes, if it is a file."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


@contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show on a terminal what is being done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
