"""One process is a rank too; two ranks with half a batch each are one with the whole."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from instants import MAY_FORK
from sightline.training.distributed import Rank, join_process_group

from .ranks import run_two_ranks
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
    with join_process_group(torch.device("cpu")) as rank:
        assert type(rank) is Rank
        assert (rank.index, rank.world_size, rank.is_main) == (0, 1, True)
        rank.barrier()
        assert rank.sum(1.5, 2) == [1.5, 2]
        assert rank.gather(b"alone") == [b"alone"]
        rank.sum_gradients(model.parameters())
    assert digest(gradients(model).values()) == before


def work_as(index: int, folder: Path) -> None:
    """What each of the two processes does: half the batch, then everybody's sum."""
    model = tiny_model("bert")
    unused = model.embedding.segments.weight.requires_grad_(requires_grad=False)
    with join_process_group(torch.device("cpu")) as rank:
        assert (rank.index, rank.world_size, rank.is_main) == (index, 2, index == 0)
        backward(model, slice(2 * index, 2 * index + 2))
        if index:
            model.embedding.positions.weight.grad = None  # this rank had nothing to say about them
        model.used_by_nobody = torch.nn.Parameter(torch.ones(1))
        rank.sum_gradients(model.parameters())
        assert model.used_by_nobody.grad is None
        assert unused.grad is None
        assert rank.sum(float(index), 10.0) == [1.0, 20.0]
        assert rank.gather(b"main" if index == 0 else b"the second") == [b"main", b"the second"]
        rank.barrier()
    save_file(gradients(model), folder / f"{index}.safetensors")


@MAY_FORK
def test_two_ranks_with_half_a_batch_equal_one_with_the_whole(tmp_path):
    run_two_ranks(lambda index: work_as(index, tmp_path))
    first, second = (load_file(tmp_path / f"{index}.safetensors") for index in range(2))
    assert digest(first.values()) == digest(second.values())
    whole = tiny_model("bert")
    backward(whole, slice(0, 4))
    for name, gradient in gradients(whole).items():
        if "embedding.positions" not in name and "segments" not in name:
            assert_close(first[name], gradient, rtol=1e-5, atol=1e-5)
