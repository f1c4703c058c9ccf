"""One process is a rank too; two ranks with half a batch each are one with the whole."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from sightline.training.distributed import Rank, join_process_group

from .toy import digest, summed_loss, tiny_model


def gradients(model) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def backward(model, rows: slice) -> None:
    ids = torch.randint(0, 13, (4, 6), generator=torch.Generator().manual_seed(3))
    summed_loss(model.eval(), ids[rows], ids[rows], smoothing=0.1).backward()


def test_one_process_is_a_rank_that_changes_nothing(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    model = tiny_model()
    backward(model, slice(0, 4))
    before = digest(gradients(model).values())
    with join_process_group() as rank:
        assert type(rank) is Rank
        assert (rank.index, rank.world_size, rank.is_main) == (0, 1, True)
        rank.barrier()
        assert rank.sum(1.5, 2) == [1.5, 2]
        rank.sum_gradients(model.parameters())
    assert digest(gradients(model).values()) == before


def work_as(index: int, folder: Path) -> None:
    """What each of the two processes does: half the batch, then everybody's sum."""
    model = tiny_model("bert")
    unused = model.embedding.segments.weight.requires_grad_(requires_grad=False)
    with join_process_group() as rank:
        assert (rank.index, rank.world_size, rank.is_main) == (index, 2, index == 0)
        backward(model, slice(2 * index, 2 * index + 2))
        if index:
            model.embedding.positions.weight.grad = None  # this rank had nothing to say about them
        model.used_by_nobody = torch.nn.Parameter(torch.ones(1))
        rank.sum_gradients(model.parameters())
        assert model.used_by_nobody.grad is None
        assert unused.grad is None
        assert rank.sum(float(index), 10.0) == [1.0, 20.0]
        rank.barrier()
    save_file(gradients(model), folder / f"{index}.safetensors")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_two_ranks_with_half_a_batch_equal_one_with_the_whole(tmp_path, monkeypatch):
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # a port of its own
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"}
    together["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    for name, value in together.items():
        monkeypatch.setenv(name, value)
    children = []
    for index in range(2):
        children.append(os.fork())
        if children[-1] == 0:
            try:
                os.environ["RANK"] = str(index)
                work_as(index, tmp_path)
            except BaseException:
                os._exit(1)
            os._exit(0)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    first, second = (load_file(tmp_path / f"{index}.safetensors") for index in range(2))
    assert digest(first.values()) == digest(second.values())
    whole = tiny_model("bert")
    backward(whole, slice(0, 4))
    for name, gradient in gradients(whole).items():
        if "embedding.positions" not in name and "segments" not in name:
            assert_close(first[name], gradient, rtol=1e-5, atol=1e-5)
