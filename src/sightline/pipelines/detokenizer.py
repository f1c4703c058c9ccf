"""Detokenization of a text that grows: the ids after a context, decoded as they come."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.data.tokenizers import Tokenizer

REPLACEMENT = "�"
"""The replacement character U+FFFD: bytes that are not a character, or not yet."""


@dataclass(frozen=True)
class DetokenizerState:
    """How many ids of a sequence have become text."""

    text: str = ""
    prefix_offset: int = 0
    """Ids before this one are no longer decoded."""
    read_offset: int = 0
    """Ids before this one have become text."""


MAX_CACHED = 4_096
"""States kept for sequences that may be extended."""


class IncrementalDetokenizer:
    """Decodes the ids after a context; the context itself is not part of the text.

    The text only grows, whatever ids follow. Each step decodes only the newest ids, together with a few before them,
    because some tokenizers decode a token differently at the beginning of a text.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()) -> None:
        self.tokenizer = tokenizer
        self.context = trim_context(tokenizer, context)
        self._states: dict[tuple[int, ...], DetokenizerState] = {}

    def __call__(self, ids: Sequence[int]) -> str:
        """Return the stable text of a sequence and cache it: the next call usually adds one id."""
        ids = tuple(ids)
        state = self._states.get(ids[:-1])
        for end in range(len(ids) if state else 1, len(ids) + 1):
            state = self.extend(state or DetokenizerState(), ids[:end])
        if len(self._states) >= MAX_CACHED:
            self._states.clear()
        self._states[ids] = state or DetokenizerState()
        return self._states[ids].text

    def extend(self, state: DetokenizerState, ids: Sequence[int], *, last: bool = False) -> DetokenizerState:
        """Advance a state to these ids; with `last`, incomplete characters are decoded too."""
        context = self.context if state.prefix_offset == 0 else ()
        prefix = self.tokenizer.decode([*context, *ids[state.prefix_offset : state.read_offset]])
        whole = self.tokenizer.decode([*context, *ids[state.prefix_offset :]])
        new = whole[len(prefix) :] if whole.startswith(prefix) else self.tokenizer.decode(ids[state.read_offset :])
        if not last and (not new or new.endswith(REPLACEMENT)):
            return state
        return DetokenizerState(state.text + new, state.read_offset, len(ids))

    def decode_all(self, ids: Sequence[int]) -> str:
        """Return the text of a complete sequence."""
        self(ids)
        return self.extend(self._states[tuple(ids)], ids, last=True).text


MAX_CONTEXT = 8
"""Context ids that are decoded: those further away do not change how a token is decoded."""
MAX_CHARACTER_BYTES = 4


def trim_context(tokenizer: Tokenizer, context: Sequence[int]) -> tuple[int, ...]:
    """Return the last ids of a context, a few more where the cut would fall between the bytes of a character.

    A tokenizer that falls back to bytes decodes a run of them as a whole: half a character would spoil what follows.
    """
    sizes = range(MAX_CONTEXT, MAX_CONTEXT + MAX_CHARACTER_BYTES)
    trimmed = [tuple(context[-size:]) for size in sizes]
    return next((ids for ids in trimmed if not tokenizer.decode(ids).startswith(REPLACEMENT)), trimmed[0])
