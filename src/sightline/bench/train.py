"""`sightline bench train`: one training step (forward, backward, update) against the peers on the same batch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sightline.bench.measure import Timing, time_interleaved
from sightline.bench.peers import installed_peers
from sightline.bench.workload import PAD, Workload
from sightline.model.registry import preset
from sightline.model.transformer import Transformer, TransformerConfig
from sightline.training.loss import projected_cross_entropy

SIZES = {"tiny": ("transformer-tiny", 10_000), "base": ("paper-base", 32_000)}


class Sightline(nn.Module):
    """Our model with packed batches and the chunked loss."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.model = Transformer(config)

    def forward(self, work: Workload) -> Tensor:
        """Return the loss."""
        encoder_output = self.model.encode(work.source, lengths=work.source_lengths, packed=True)
        hidden = self.model.decode(work.target, encoder_output, lengths=work.target_lengths, packed=True)
        labels = work.labels[work.target != PAD]
        return projected_cross_entropy(hidden, self.model.output.weight, labels, smoothing=0.1) / labels.numel()


def training_step(model: nn.Module, work: Workload) -> Callable[[], None]:
    """Return a function that does one training step; all contenders use torch's fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(work).backward()
        optimizer.step()

    return step


def bench_train(
    size: str, *, rounds: int, after_round: Callable[[int], object] = lambda _: None
) -> tuple[Workload, list[Timing]]:
    """Time a training step of ours and of every installed peer, interleaved."""
    name, vocab_size = SIZES[size]
    config = preset(name, vocab_size=vocab_size, dropout=0.1)
    assert isinstance(config, TransformerConfig)  # noqa: S101 - both presets are; this tells the type checker
    work = Workload.mixed(vocab_size=vocab_size)
    contenders = {"sightline": Sightline, **installed_peers()}
    steps = {name: training_step(make(config).train(), work) for name, make in contenders.items()}
    return work, time_interleaved(steps, rounds=rounds, after_round=after_round)
