"""An output stream that never fails: a closed terminal or pipe must not end a run."""

import io
from contextlib import suppress
from typing import Protocol, runtime_checkable


@runtime_checkable
class Stream(Protocol):
    """What is needed of a stream: `sys.stderr` and every text file have it."""

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""

    def write(self, text: str, /) -> int:
        """Write text."""

    def flush(self) -> None:
        """Flush the stream."""

    def isatty(self) -> bool:
        """Tell whether this is a terminal."""


class SafeStream(io.TextIOBase):
    """Forwards text to another stream, ignoring write errors; characters that its encoding lacks are escaped."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed annotates an attribute
        """Encoding of the other stream."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Tell whether the other stream is an open terminal."""
        return not self.stream.closed and self.stream.isatty()

    def write(self, text: str) -> int:
        """Write, or drop the text if the other end is closed."""
        with suppress(OSError, ValueError):  # a stream that Python itself has closed raises a ValueError
            self.stream.write(text.encode(self.encoding, errors="backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OSError, ValueError):
            self.stream.flush()
