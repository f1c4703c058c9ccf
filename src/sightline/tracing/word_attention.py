"""Attention between words instead of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sightline.tracing.passage import Word


@dataclass(frozen=True)
class WordAttention:
    """Every attention of a trace, with the tokens of a word taken together."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]
    inputs: tuple[Word, ...]
    attention: dict[str, Float[np.ndarray, "..."]]
    """By the name of the attention (`decoder.1.cross_attention`), heads × words that look × words looked at."""

    def axes(self, name: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Return the words that stand at the rows and at the columns: who looks, and at what."""
        if "cross_attention" in name:
            return self.target, self.source
        return (self.source, self.source) if name.startswith("encoder") else (self.inputs, self.inputs)


def joined(
    weights: Float[np.ndarray, "H T S"], rows: Sequence[Word], columns: Sequence[Word]
) -> Float[np.ndarray, "H words others"]:
    """Add up what the tokens of a word receive; average over the tokens of the word that looks."""
    received = [weights[:, :, list(word.tokens)].sum(axis=2) for word in columns]
    by_column = np.stack(received, axis=2) if received else weights[:, :, :0]
    means = [by_column[:, list(word.tokens)].mean(axis=1) for word in rows]
    return np.stack(means, axis=1) if means else by_column[:, :0]
