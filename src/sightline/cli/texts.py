r"""Input texts of a command: its arguments, or the lines of stdin, which are UTF-8 whatever the locale.

Only \n (or \r\n) ends a line, as other programs count lines, so that line 7 of the output belongs to line 7 of the
input. Blank lines need no model. Lines are answered before more are read, as a program at the other end of a pipe may
send one line and wait. Knows no model and no output.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from sightline.errors import InputError

BLOCK = 1 << 15
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
    while block := read(BLOCK):
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
    for block in blocks:
        filled = [text for text in block if not text.blank]
        results = iter(process_block(filled, work))
        for text in block:
            yield text, None if text.blank else next(results)


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
