"""Distributed training. A single process is a `Rank` too, so that the loop need not know how many there are.

every rank    reads its slice of each batch, computes gradients, sums them over all ranks, makes the same update
main rank     writes checkpoints and logs, and prints
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sightline.runtime import WORLD_SIZE


class Rank:
    """A single process: nothing to wait for, nothing to sum."""

    index: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes and prints."""
        return self.index == 0

    def barrier(self) -> None:
        """Wait for all ranks."""

    def sum(self, *values: float | int) -> list[float]:
        """Return the sums over all ranks: of tokens, losses, stop requests."""
        return [float(value) for value in values]

    def gather(self, data: bytes) -> list[bytes]:
        """Return the data of every rank, by rank."""
        return [data]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every rank the sum of all ranks' gradients."""


SINGLE_RANK = Rank()


class GroupRank(Rank):
    """One of several processes of torch.distributed, whose messages are tensors of its device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.index, self.world_size = dist.get_rank(), dist.get_world_size()

    def barrier(self) -> None:
        """Wait for all ranks."""
        dist.barrier()

    def sum(self, *values: float | int) -> list[float]:
        """Return the sums over all ranks, in 64 bits."""
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, data: bytes) -> list[bytes]:
        """Return the data of every rank, by rank: sent as tensors of one size, as nothing here is pickled."""
        sizes = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(data)], device=self.device))
        n_bytes = [int(size) for size in sizes]
        padded = torch.frombuffer(bytearray(data.ljust(max(1, *n_bytes), b"\0")), dtype=torch.uint8).to(self.device)
        everything = [torch.empty_like(padded) for _ in range(self.world_size)]
        dist.all_gather(everything, padded)
        return [found[:size].cpu().numpy().tobytes() for found, size in zip(everything, n_bytes, strict=True)]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every rank the sum of all ranks' gradients, in one all-reduce; a missing gradient counts as zero.

        A parameter without a gradient on any rank stays so: the optimizer skips it, as in a single process.
        """
        everything = [parameter for parameter in parameters if parameter.requires_grad]
        ranks_with = self.sum(*(float(parameter.grad is not None) for parameter in everything))
        trained = [parameter for parameter, count in zip(everything, ranks_with, strict=True) if count]
        if not trained:
            return
        flat = torch.cat([gradient_of(parameter).flatten() for parameter in trained])
        dist.all_reduce(flat)
        sums = torch.split(flat, [parameter.numel() for parameter in trained])
        for parameter, part in zip(trained, sums, strict=True):
            parameter.grad = part.view_as(parameter)


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Return a parameter's gradient, zero if it has none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


GROUP_TIMEOUT = timedelta(minutes=30)
"""How long ranks wait for each other: the others wait while the main rank encodes the corpus."""


@contextmanager
def join_process_group(device: torch.device) -> Iterator[Rank]:
    """Join the process group if torchrun started this process, else be a single rank; gradients are on the device."""
    if int(os.environ.get(WORLD_SIZE, "1")) < 2:
        yield Rank()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)  # what torch does without naming a device, it does on this one
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=GROUP_TIMEOUT)
    try:
        yield GroupRank(device)
    finally:
        dist.destroy_process_group()
