"""Attention between words instead of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sightline.tracing.tokenized_text import Word


@dataclass(frozen=True)
class WordAttention:
    """Every attention of a trace, with the tokens of each word merged."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]
    inputs: tuple[Word, ...]
    attention: dict[str, Float[np.ndarray, "..."]]
    """By attention name (`decoder.1.cross_attention`): heads × query words × key words."""

    def axes(self, name: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Return the words of the rows (queries) and of the columns (keys)."""
        if "cross_attention" in name:
            return self.target, self.source
        return (self.source, self.source) if name.startswith("encoder") else (self.inputs, self.inputs)


def aggregate_by_word(
    weights: Float[np.ndarray, "H T S"], rows: Sequence[Word], columns: Sequence[Word]
) -> Float[np.ndarray, "H words others"]:
    """Sum the weights over the tokens of each key word; average over the tokens of each query word."""
    received = [weights[:, :, list(word.tokens)].sum(axis=2) for word in columns]
    by_column = np.stack(received, axis=2) if received else weights[:, :, :0]
    means = [by_column[:, list(word.tokens)].mean(axis=1) for word in rows]
    return np.stack(means, axis=1) if means else by_column[:, :0]
