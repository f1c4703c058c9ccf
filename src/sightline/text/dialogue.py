"""A conversation as a source: its last turns, a line each. Learning and answering spell it alike, by one function."""

from collections.abc import Sequence


def source_of(turns: Sequence[str], *, history: int) -> str:
    """Return the last so many turns, oldest first, a line each; line breaks within a turn become blanks."""
    return "\n".join(" ".join(turn.splitlines()) for turn in turns[-history:])
