"""Averages of weights are averages, and the weights they stand in for come back untouched."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from sightline.bundle import weights
from sightline.errors import InputError, ModelFileError
from sightline.training.optimizer import ExponentialMovingAverage, average_files, effective_decay

from .toy import SETTINGS, digest, new_state, tiny_model, train


def test_running_average_is_its_formula():
    state = new_state()
    average = ExponentialMovingAverage(state.model, decay=0.9)
    expected = {name: weight.clone() for name, weight in average.weights.items()}
    for step in range(1, 6):
        train(state, SETTINGS, n_batches=SETTINGS.gradient_accumulation)
        average.update(state.model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        for name, parameter in state.model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * parameter.detach()
    for name, weight in average.weights.items():
        assert_close(weight, expected[name])


def test_running_average_of_weights_that_stay_is_these_weights():
    model = tiny_model()
    average = ExponentialMovingAverage(model, decay=0.99)
    for step in range(1, 50):
        average.update(model, step)
    assert digest(average.weights.values()) == digest(model.parameters())


def test_running_average_forgets_the_beginning_first_and_is_slow_later():
    assert effective_decay(1, max_decay=0.999) == 2 / 11
    assert effective_decay(10**6, max_decay=0.999) == 0.999


def test_running_average_has_tied_weights_once():
    model = tiny_model("transformer")
    assert list(ExponentialMovingAverage(model, decay=0.9).weights) == [name for name, _ in model.named_parameters()]


def test_running_average_stands_in_and_the_weights_come_back():
    state = new_state("transformer")
    train(state, SETTINGS, n_batches=9)
    model, average = state.model.eval(), state.ema
    averaged = tiny_model("transformer").eval()
    averaged.load_state_dict(average.weights, strict=False)
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])
    before, own = digest(model.parameters()), model(source, target)
    kept = digest(average.weights.values())
    with average.swap_into(model):
        assert torch.equal(model(source, target), averaged(source, target))
        assert model.output.weight is model.source_embedding.tokens.weight
    assert digest(model.parameters()) == before
    assert digest(average.weights.values()) == kept
    assert torch.equal(model(source, target), own)


def test_weights_come_back_from_a_validation_that_fails():
    state = new_state()
    train(state, SETTINGS, n_batches=6)
    before = digest(state.model.parameters())

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), state.ema.swap_into(state.model):
        fail()
    assert digest(state.model.parameters()) == before


def test_running_average_of_half_precision_is_kept_in_full():
    """In 16 bits a change of a thousandth would round to no change at all."""
    model = tiny_model().bfloat16()
    average = ExponentialMovingAverage(model, decay=0.999)
    for parameter in model.parameters():
        parameter.data.fill_(1.0)
    average.update(model, 10**6)
    assert all(weight.dtype == torch.float32 for weight in average.weights.values())
    with average.swap_into(model):
        assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())


def files(folder: Path, *, dtype: torch.dtype = torch.float32, n_files: int = 3) -> list[Path]:
    generator = torch.Generator().manual_seed(1)
    paths = [folder / f"{n}.safetensors" for n in range(n_files)]
    for path in paths:
        shapes = {"a": (4, 3), "b": (5,), "c": ()}
        save_file({name: torch.randn(s, generator=generator).to(dtype) for name, s in shapes.items()}, path)
    return paths


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    with weights.open_tensor_file(path) as file:
        return file.read_all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_mean_of_files_is_the_mean(tmp_path, dtype):
    """To the last bit: the sum is made in 64 bits and rounded once."""
    paths = files(tmp_path, dtype=dtype)
    read = [tensors_of(path) for path in paths]
    means = average_files(paths)
    assert list(means) == list(read[0])
    for name, mean in means.items():
        assert torch.equal(mean, torch.stack([tensors[name].double() for tensors in read]).mean(dim=0).to(dtype))
        assert mean.dtype == dtype


def test_mean_of_one_file_is_that_file(tmp_path):
    (path,) = files(tmp_path, n_files=1)
    assert digest(average_files([path]).values()) == digest(tensors_of(path).values())


def test_mean_reads_one_tensor_at_a_time(tmp_path, monkeypatch):
    """Ten checkpoints must not need the memory of ten models."""
    read = []
    plain = weights.TensorFile.read
    monkeypatch.setattr(weights.TensorFile, "read", lambda file, name, **how: read.append(name) or plain(file, name))
    names = list(average_files(files(tmp_path)))
    assert read == [name for name in names for _ in range(3)]


def test_mean_of_nothing_is_refused():
    with pytest.raises(InputError, match="no checkpoints to average"):
        average_files([])


def test_mean_of_different_models_is_refused(tmp_path):
    first, second, _ = files(tmp_path)
    save_file({"a": torch.zeros(4, 3), "b": torch.zeros(6)}, second)
    with pytest.raises(ModelFileError, match=r"does not fit .*0\.safetensors: missing: c; of the wrong shape: b"):
        average_files([first, second])


def test_mean_with_a_file_that_holds_nan_is_refused(tmp_path):
    first, second, _ = files(tmp_path)
    tensors = tensors_of(second)
    tensors["b"][2] = torch.nan
    save_file(tensors, second)
    with pytest.raises(ModelFileError, match=r"1\.safetensors: b holds NaN"):
        average_files([first, second])


def test_mean_with_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="is missing"):
        average_files([tmp_path / "none.safetensors"])
