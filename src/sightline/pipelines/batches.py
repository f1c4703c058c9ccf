"""Batching: texts of similar length together, within a token budget."""

from collections.abc import Iterator, Sequence

from sightline.errors import SettingsError

BATCH_TOKENS = 4_096
MIN_WIDTH = 8
"""Minimum length a text counts as: each row holds logits over the whole vocabulary, however short it is."""


def batch_by_tokens(lengths: Sequence[int], *, batch_tokens: int, rows: int = 1) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest texts first, so that running out of memory shows at once.

    Padding counts, and so do the `rows` (beams, samples) of each text. A text that exceeds the budget by itself is
    a batch of its own; a text without tokens is left out.
    """
    if batch_tokens < 1:
        raise SettingsError(f"batch_tokens must be 1 or more, not {batch_tokens}")
    order = sorted((number for number, length in enumerate(lengths) if length), key=lambda number: -lengths[number])
    while order:
        width = max(lengths[order[0]], MIN_WIDTH) * rows
        size = max(1, batch_tokens // width)
        yield order[:size]
        order = order[size:]
