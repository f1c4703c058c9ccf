r"""Output of commands: one line per result, flushed at once, UTF-8 whatever the locale.

A terminal gets the characters it can show. Line breaks within a text are escaped as \n in plain lines; JSON keeps them.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r"})
COLUMN_ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def put(text: str) -> None:
    """Write to stdout and flush."""
    stream: Any = sys.stdout
    if (stream.encoding or "utf-8").lower() != "utf-8":
        stream.reconfigure(**({"errors": "replace"} if stream.isatty() else {"encoding": "utf-8"}))
    stream.write(text)
    stream.flush()


def put_line(text: str) -> None:
    """Print a text as one line."""
    put(text.translate(ESCAPES) + "\n")


def put_row(*cells: str) -> None:
    """Print texts as tab-separated columns of one line."""
    put("\t".join(cell.translate(COLUMN_ESCAPES) for cell in cells) + "\n")


def put_json(entries: Mapping[str, object]) -> None:
    """Print an object as one line of JSON; NaN and infinity become null, as JSON has neither."""
    put(json.dumps(replace_non_finite(entries), ensure_ascii=False, allow_nan=False) + "\n")


def replace_non_finite(value: object) -> object:
    """Replace NaN and infinity by None, at any depth."""
    if isinstance(value, Mapping):
        return {key: replace_non_finite(entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [replace_non_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
