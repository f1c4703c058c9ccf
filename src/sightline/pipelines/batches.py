"""Which texts a model is given together: those of similar length, as many as a budget of tokens allows."""

from collections.abc import Iterator, Sequence

from sightline.errors import SettingsError

BATCH_TOKENS = 4_096
LEAST_WIDTH = 8
"""A text counts as no shorter, for each row holds a score for every word of the vocabulary, however short it is."""


def batches(lengths: Sequence[int], *, batch_tokens: int, rows: int = 1) -> Iterator[list[int]]:
    """Yield the numbers of the texts that go together, longest first, so that what is too much shows at once.

    Padding counts, and so do the `rows` (beams, samples) that each text becomes. A text that is more than the budget
    by itself goes alone; one without any tokens is left out, as there is nothing to do for it.
    """
    if batch_tokens < 1:
        raise SettingsError(f"batch_tokens must be 1 or more, not {batch_tokens}")
    order = sorted((number for number, length in enumerate(lengths) if length), key=lambda number: -lengths[number])
    while order:
        width = max(lengths[order[0]], LEAST_WIDTH) * rows
        size = max(1, batch_tokens // width)
        yield order[:size]
        order = order[size:]
