"""A stream to a person, who may have closed the terminal or the pipe: what cannot be shown is lost, a run goes on."""

import io
from contextlib import suppress
from typing import Protocol, runtime_checkable


@runtime_checkable
class Stream(Protocol):
    """What is asked of a stream: `sys.stderr` has it, and every text file."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""

    def write(self, text: str, /) -> int:
        """Write text."""

    def flush(self) -> None:
        """Let the reader see everything now."""

    def isatty(self) -> bool:
        """Tell whether this is a terminal."""


class Screen(io.TextIOBase):
    """Hands text on to another stream, the characters written out that its encoding does not have."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # only the annotation in typeshed is no property
        """The other stream's."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Tell whether somebody is looking."""
        return not self.stream.closed and self.stream.isatty()

    def write(self, text: str) -> int:
        """Write, if there is still somebody to read."""
        with suppress(OSError, ValueError):  # a stream that Python itself has closed raises a ValueError
            self.stream.write(text.encode(self.encoding, errors="backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Let the reader see everything now."""
        with suppress(OSError, ValueError):
            self.stream.flush()
