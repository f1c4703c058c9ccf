"""A dialogue as a source: its last turns, one per line. Training and inference format it with the same function."""

import re
from collections.abc import Sequence

PUNCTUATION = re.compile(r"[^\w\s'’]|_")


def format_context(turns: Sequence[str], *, context_turns: int) -> str:
    """Return the last `context_turns` turns, oldest first, one per line; line breaks within a turn become spaces."""
    return "\n".join(" ".join(turn.splitlines()) for turn in turns[-context_turns:])


def casual_variants(turns: Sequence[str]) -> list[str]:
    """Return the turns with those of the user as people type them in a chat: lower case, without punctuation.

    User turns are the last and every second one before it; the others are the model's own, which it reads as it wrote
    them. A turn of nothing but punctuation stays.
    """
    casual = list(turns)
    for at in range(len(turns) - 1, -1, -2):
        casual[at] = " ".join(PUNCTUATION.sub(" ", turns[at].lower()).split()) or turns[at]
    return casual
