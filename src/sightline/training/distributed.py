"""The processes of a run. One process is a `Rank` too, so that the loop need not know how many there are.

every rank    reads its own share of each batch, computes gradients, sums them with the others', updates alike
the main one  writes checkpoints and logs, and prints
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

LAUNCHED = "WORLD_SIZE"
"""What torchrun sets for the processes it starts."""


class Rank:
    """One process alone: nothing to wait for, nothing to sum."""

    index: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes and prints."""
        return self.index == 0

    def barrier(self) -> None:
        """Wait for all."""

    def sum(self, *values: float | int) -> list[float]:
        """Return the sums over all ranks: of tokens, of losses, of requests to stop."""
        return [float(value) for value in values]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every rank the sum of all ranks' gradients."""


class GroupRank(Rank):
    """One of several processes that torch.distributed has brought together."""

    def __init__(self) -> None:
        self.index, self.world = dist.get_rank(), dist.get_world_size()

    def barrier(self) -> None:
        """Wait for all."""
        dist.barrier()

    def sum(self, *values: float | int) -> list[float]:
        """Return the sums over all ranks, in 64 bits."""
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every rank the sum of all ranks' gradients, in one exchange; where a rank has none it adds zero.

        What no rank has a gradient for stays without one: an optimiser leaves it alone, as in one process.
        """
        everything = [parameter for parameter in parameters if parameter.requires_grad]
        ranks_with = self.sum(*(float(parameter.grad is not None) for parameter in everything))
        trained = [parameter for parameter, count in zip(everything, ranks_with, strict=True) if count]
        if not trained:
            return
        together = torch.cat([gradient_of(parameter).flatten() for parameter in trained])
        dist.all_reduce(together)
        sums = torch.split(together, [parameter.numel() for parameter in trained])
        for parameter, part in zip(trained, sums, strict=True):
            parameter.grad = part.view_as(parameter)


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Return a parameter's gradient, zero if it has none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


@contextmanager
def joined_rank() -> Iterator[Rank]:
    """Join the processes that torchrun started with this one, or be alone."""
    if int(os.environ.get(LAUNCHED, "1")) < 2:
        yield Rank()
        return
    dist.init_process_group("gloo")
    try:
        yield GroupRank()
    finally:
        dist.destroy_process_group()
