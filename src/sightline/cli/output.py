r"""What a command prints: a line for each result, at once, in UTF-8 whatever the locale says.

A terminal gets what it can show. A text may hold line breaks, a line may not: plain lines have them written out, as
\n; JSON keeps them.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r"})
COLUMN_ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def put(text: str) -> None:
    """Write to stdout and let whoever reads it have it now."""
    stream: Any = sys.stdout
    if (stream.encoding or "utf-8").lower() != "utf-8":
        stream.reconfigure(**({"errors": "replace"} if stream.isatty() else {"encoding": "utf-8"}))
    stream.write(text)
    stream.flush()


def put_line(text: str) -> None:
    """Print a text as one line."""
    put(text.translate(ESCAPES) + "\n")


def put_row(*cells: str) -> None:
    """Print texts as the columns of one line, with tabs between them."""
    put("\t".join(cell.translate(COLUMN_ESCAPES) for cell in cells) + "\n")


def put_json(entries: Mapping[str, object]) -> None:
    """Print an object as one line of JSON; what is no finite number becomes null, as JSON has no other word for it."""
    put(json.dumps(finite(entries), ensure_ascii=False, allow_nan=False) + "\n")


def finite(value: object) -> object:
    """Return a value that JSON can hold."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
