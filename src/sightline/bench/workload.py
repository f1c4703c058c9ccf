"""The batch every contender trains on: sentence pairs of mixed length, as real ones are."""

from dataclasses import dataclass

import torch
from torch import Tensor

PAD = 0


@dataclass(frozen=True)
class Workload:
    """One batch of translation, padded; all contenders read the same."""

    vocab_size: int
    source: Tensor  # B S
    source_lengths: Tensor  # B
    target: Tensor  # B T, what the decoder reads
    target_lengths: Tensor  # B
    labels: Tensor  # B T, what it must say

    @classmethod
    def mixed(
        cls, *, vocab_size: int, n_sentences: int = 163, shortest: int = 20, longest: int = 30, seed: int = 1
    ) -> "Workload":
        """Draw sentences of 20 to 30 tokens: some 4,100 target tokens, a sixth of the grid padding."""
        generator = torch.Generator().manual_seed(seed)

        def draw(low: int, high: int, *shape: int) -> Tensor:
            return torch.randint(low, high, shape, generator=generator)

        lengths = draw(shortest, longest + 1, n_sentences)
        lengths[0] = longest
        source_lengths = (lengths + draw(-3, 4, n_sentences)).clamp(1, longest)
        real = torch.arange(longest) < lengths[:, None]
        text = draw(1, vocab_size, n_sentences, longest + 1)
        source_real = torch.arange(int(source_lengths.max())) < source_lengths[:, None]
        source = draw(1, vocab_size, *source_real.shape).masked_fill(~source_real, PAD)
        return cls(
            vocab_size,
            source,
            source_lengths,
            text[:, :-1].masked_fill(~real, PAD),
            lengths,
            text[:, 1:].masked_fill(~real, PAD),
        )

    @property
    def n_target_tokens(self) -> int:
        """Real tokens the decoder must predict."""
        return int(self.target_lengths.sum())

    @property
    def padding(self) -> float:
        """Share of the target grid that is padding."""
        return 1 - self.n_target_tokens / self.target.numel()
