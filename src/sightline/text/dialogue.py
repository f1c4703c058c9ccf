"""A conversation as a source: its last turns, a line each. Learning and answering spell it alike, by one function."""

import re
from collections.abc import Sequence

PUNCTUATION = re.compile(r"[^\w\s'’]|_")


def source_of(turns: Sequence[str], *, history: int) -> str:
    """Return the last so many turns, oldest first, a line each; line breaks within a turn become blanks."""
    return "\n".join(" ".join(turn.splitlines()) for turn in turns[-history:])


def typed_in_haste(source: str) -> str:
    """Return what was said as people type it when they chat: in small letters, without punctuation."""
    lines = (" ".join(PUNCTUATION.sub(" ", line).split()) for line in source.lower().split("\n"))
    return "\n".join(lines)
