"""The batch that every contender trains on: sentence pairs of mixed length, like real ones."""

from dataclasses import dataclass

import torch
from torch import Tensor

PAD = 0


@dataclass(frozen=True)
class Workload:
    """One padded translation batch, the same for all contenders."""

    vocab_size: int
    source: Tensor  # B S
    source_lengths: Tensor  # B
    target: Tensor  # B T, the decoder's input
    target_lengths: Tensor  # B
    labels: Tensor  # B T, its targets

    @classmethod
    def mixed(
        cls, *, vocab_size: int, n_sentences: int = 163, min_length: int = 20, max_length: int = 30, seed: int = 1
    ) -> "Workload":
        """Draw sentences of 20 to 30 tokens: some 4,100 target tokens, a sixth of the batch padding."""
        generator = torch.Generator().manual_seed(seed)

        def draw(low: int, high: int, *shape: int) -> Tensor:
            return torch.randint(low, high, shape, generator=generator)

        lengths = draw(min_length, max_length + 1, n_sentences)
        lengths[0] = max_length
        source_lengths = (lengths + draw(-3, 4, n_sentences)).clamp(1, max_length)
        real = torch.arange(max_length) < lengths[:, None]
        text = draw(1, vocab_size, n_sentences, max_length + 1)
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
        """Target tokens without padding."""
        return int(self.target_lengths.sum())

    @property
    def padding(self) -> float:
        """Share of padding in the targets."""
        return 1 - self.n_target_tokens / self.target.numel()
