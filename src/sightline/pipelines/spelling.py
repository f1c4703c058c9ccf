"""Text from ids that come one at a time: a character is not shown before all of its bytes are there.

What is settled once stays: however the ids go on, the text only grows. Only the newest few ids are looked at, together
with those before them, for some tokenizers write a token differently at the beginning of a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.pipelines.writing import HALF
from sightline.text import Tokenizer

ENOUGH_CONTEXT = 8
"""Ids of the context that are looked at: what stands further away does not change how a token is written."""

MOST_REMEMBERED = 4_096


@dataclass(frozen=True)
class Spelling:
    """How far some ids have become text."""

    text: str = ""
    known: int = 0
    """Ids before this one are not looked at any more."""
    settled: int = 0
    """Ids before this one have become text."""


class Speller:
    """Spells what follows a context; the context itself is no part of the text."""

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()) -> None:
        self.tokenizer = tokenizer
        self.context = tuple(context[-ENOUGH_CONTEXT:])
        self._before: dict[tuple[int, ...], Spelling] = {}

    def __call__(self, ids: Sequence[int]) -> str:
        """Return the settled text of some ids, remembering it: the next call is usually for one more."""
        ids = tuple(ids)
        spelling = self._before.get(ids[:-1])
        for end in range(len(ids) if spelling else 1, len(ids) + 1):
            spelling = self.go_on(spelling or Spelling(), ids[:end])
        if len(self._before) >= MOST_REMEMBERED:
            self._before.clear()
        self._before[ids] = spelling or Spelling()
        return self._before[ids].text

    def go_on(self, spelling: Spelling, ids: Sequence[int], *, last: bool = False) -> Spelling:
        """Return the spelling of ids, the first of which are spelled already; all of them where no more will come."""
        context = self.context if spelling.known == 0 else ()
        known = self.tokenizer.decode([*context, *ids[spelling.known : spelling.settled]])
        whole = self.tokenizer.decode([*context, *ids[spelling.known :]])
        new = whole[len(known) :] if whole.startswith(known) else self.tokenizer.decode(ids[spelling.settled :])
        if not last and (not new or new.endswith(HALF)):
            return spelling
        return Spelling(spelling.text + new, spelling.settled, len(ids))

    def whole(self, ids: Sequence[int]) -> str:
        """Return the text of ids that are complete."""
        self(ids)
        return self.go_on(self._before[tuple(ids)], ids, last=True).text
