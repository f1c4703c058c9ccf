"""A conversation as a source: its last turns, a line each. Learning and answering spell it alike, by one function."""

import re
from collections.abc import Sequence

PUNCTUATION = re.compile(r"[^\w\s'’]|_")


def source_of(turns: Sequence[str], *, history: int) -> str:
    """Return the last so many turns, oldest first, a line each; line breaks within a turn become blanks."""
    return "\n".join(" ".join(turn.splitlines()) for turn in turns[-history:])


def typed_in_haste(turns: Sequence[str]) -> list[str]:
    """Return turns as people type them when they chat: in small letters, without punctuation.

    Only those of whoever is answered, the last and every second before it: the others are the model's own, and come
    back as it writes them. What is nothing but punctuation stays.
    """
    typed = list(turns)
    for at in range(len(turns) - 1, -1, -2):
        typed[at] = " ".join(PUNCTUATION.sub(" ", turns[at].lower()).split()) or turns[at]
    return typed
