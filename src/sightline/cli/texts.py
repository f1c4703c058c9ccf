r"""The texts a command works on: its arguments, or the lines of stdin, which are UTF-8 whatever the locale says.

Only \n ends a line (a \r before it belongs to it), as other programs count them, so that line 7 of the output answers
line 7 of the input. A blank line needs no model. What is read is answered before more is read: a program at the other
end of a pipe may send a line and wait. Knows no model and no output.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from sightline.errors import InputError

BLOCK = 1 << 15
"""Bytes read at a time: as many sentences as batches are cut from at once."""

LONGEST = 1 << 20
"""Bytes of a line."""

Result = TypeVar("Result")


class Text(NamedTuple):
    """A text, and where it comes from."""

    text: str
    place: str | None
    """None for the only argument: there is nothing to tell it from."""
    number: int
    """Counted from 1."""

    @property
    def blank(self) -> bool:
        """Whether there is nothing in it."""
        return not self.text.strip()


def text_blocks(given: Sequence[str] | None) -> Iterator[list[Text]]:
    """Yield the texts of a command line, or those of stdin if there are none or the only one is "-"."""
    if given and list(given) != ["-"]:
        places = [f"text {number}" for number in range(1, len(given) + 1)] if len(given) > 1 else [None]
        yield [Text(text, place, number) for number, (text, place) in enumerate(zip(given, places, strict=True), 1)]
        return
    if sys.stdin.isatty():
        sys.stderr.write("One text a line; Ctrl-D ends.\n")
    number = 1
    for lines in line_blocks(sys.stdin.buffer.read1):  # type: ignore[union-attr]
        yield [line_text(line, at) for at, line in enumerate(lines, number)]
        number += len(lines)


def line_blocks(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """Yield lines without their ends, together those that `read`, asked for so many bytes, had at that moment."""
    rest, n_lines = b"", 0
    while block := read(BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        n_lines += len(lines)
        if len(rest) > LONGEST:
            raise InputError(f"stdin:{n_lines + 1}: this line is longer than a megabyte: cut it into several")
        if lines:
            yield lines
    if rest:
        yield [rest]


def line_text(line: bytes, number: int) -> Text:
    """Return a line as text."""
    mark = b"\xef\xbb\xbf" if number == 1 else b""
    return Text(as_unicode(line.removeprefix(mark).removesuffix(b"\r"), f"stdin:{number}"), f"stdin:{number}", number)


def as_unicode(data: bytes, place: str) -> str:
    """Decode bytes, or say which of them is wrong."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: byte {error.start + 1} is not UTF-8: convert the text (iconv -t UTF-8)") from None


def whole_text(given: str | None) -> str:
    """Return a text that is one argument, or all of stdin without its last line end; nothing from a terminal."""
    if given is not None and given != "-":
        return given
    if given is None and sys.stdin.isatty():
        return ""
    return as_unicode(sys.stdin.buffer.read(), "stdin").removesuffix("\n").removesuffix("\r")


def answers(
    blocks: Iterator[list[Text]], work: Callable[[list[Text]], Sequence[Result]]
) -> Iterator[tuple[Text, Result | None]]:
    """Yield each text with what `work` makes of it, None for a blank one.

    Where a text is refused, those before it are answered, and the refusal says where it stands.
    """
    for block in blocks:
        filled = [text for text in block if not text.blank]
        results = iter(worked(filled, work))
        for text in block:
            yield text, None if text.blank else next(results)


def worked(texts: list[Text], work: Callable[[list[Text]], Sequence[Result]]) -> Iterator[Result]:
    """Yield the results for some texts: all at once, or one by one if one of them is refused."""
    if not texts:
        return
    try:
        results = work(texts)
    except InputError as error:
        if len(texts) == 1:
            raise placed(error, texts[0]) from None
        for text in texts:
            yield from worked([text], work)
    else:
        yield from results


def placed(error: InputError, text: Text) -> InputError:
    """Return the error with the place of the text it speaks of."""
    return error if text.place is None else InputError(f"{text.place}: {error}")
