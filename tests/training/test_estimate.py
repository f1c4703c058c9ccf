"""What a run will take is measured without a trace, and a model that cannot overfit one batch is found."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from instants import MAY_FORK, told_by_child
from sightline.training import estimate as module
from sightline.training.estimate import Estimate, OverfitCheck, estimate, run_overfit_check
from sightline.training.state import TrainingState

from .small import generators_now, mean_loss, small_batch, total_loss
from .toy import FAMILIES, SETTINGS, digest, fingerprint, new_state, tiny_model, train

CPU = torch.device("cpu")


def tried(state: TrainingState, family: str = "gpt", **changes) -> Estimate:
    batches = [small_batch(family), small_batch(family, length=7)]
    asked = {"gradient_accumulation": 1, **changes}
    return estimate(state.model, batches, total_loss, optimizer=state.optimizer, **asked)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_run_is_the_same_to_the_last_bit_with_and_without_the_trial(family, optimizer):
    settings = replace(SETTINGS, optimizer=optimizer, weight_decay=0.0 if optimizer == "adam" else 0.1)
    runs = []
    for trial in (False, True):
        torch.manual_seed(3)
        state = new_state(family, settings)
        if trial:
            tried(state, family)
        runs.append((train(state, settings, n_batches=8), fingerprint(state)))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("gradient_accumulation", [1, 3])
def test_resumed_run_keeps_its_pending_gradients_and_what_its_optimizer_remembers(gradient_accumulation):
    state = new_state()
    train(state, SETTINGS, n_batches=5)  # an update, and two batches that wait for the next
    before, generators = fingerprint(state), generators_now()
    rates = [group["lr"] for part in state.optimizer.parts for group in part.param_groups]
    tried(state, gradient_accumulation=gradient_accumulation)
    assert fingerprint(state) == before
    assert generators_now() == generators
    assert [group["lr"] for part in state.optimizer.parts for group in part.param_groups] == rates


def test_everything_is_put_back_when_the_trial_fails():
    state = new_state()
    state.model.eval()
    train(state, SETTINGS, n_batches=4)
    before = fingerprint(state)

    def failing(model, batch):
        torch.rand(3)
        raise MemoryError

    with pytest.raises(MemoryError):
        estimate(
            state.model, [small_batch("gpt")], failing,
            gradient_accumulation=1, optimizer=state.optimizer,
        )  # fmt: skip
    assert fingerprint(state) == before
    assert not any(part.training for part in state.model.modules())


def test_gradient_that_is_not_finite_neither_spoils_the_weights_nor_saves_the_time_of_an_update(monkeypatch):
    state = new_state()
    updates, update = [], state.optimizer.update
    monkeypatch.setattr(state.optimizer, "update", lambda *a, **b: updates.append(update(*a, **b)))
    before = digest(state.model.parameters())
    estimate(
        state.model, [small_batch("gpt")], lambda model, batch: total_loss(model, batch) * float("inf"),
        gradient_accumulation=1, optimizer=state.optimizer,
    )  # fmt: skip
    assert digest(state.model.parameters()) == before
    assert updates
    assert not any(done.problem for done in updates)


def test_time_is_that_of_all_batches_and_updates(monkeypatch):
    """On a clock that goes on by a second whenever it is read, everything takes one second."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(module.time, "perf_counter", lambda: float(next(seconds)))
    found = tried(new_state(), gradient_accumulation=3)
    assert found.seconds_per_update == 3 + 1
    assert found.tokens_per_second == 3 * 15 / 4


def test_parameters_are_counted_once_where_they_are_tied():
    state = new_state("transformer")
    assert tried(state, "transformer").parameters == sum(p.numel() for p in state.model.parameters())


def test_what_is_set_aside_is_not_counted(monkeypatch):
    monkeypatch.setattr(module, "peak_memory", lambda device: 1_000_000)
    state = new_state()
    train(state, SETTINGS, n_batches=4)
    kinds = state.tensors()
    aside = sum(tensor.nbytes for kind in ("optimizer", "gradients") for tensor in kinds[kind].values())
    assert tried(state).memory_bytes == 1_000_000 - aside


@pytest.mark.parametrize(
    ("found", "expected", "sentence"),
    [
        (
            Estimate(1_620_000, 310_400_000, 1.602, 1e4),
            {"n_updates": 100},
            "1.6 M parameters, about 310 MB of memory, about 2 min 40 s",
        ),
        (Estimate(213_000_000, 4_260_000_000, 1, 1e4), {}, "213 M parameters, about 4.3 GB of memory"),
        (Estimate(999, None, 0.1, 1e4), {"n_updates": 1}, "999 parameters, about 1 s"),
        (Estimate(1000, 3, 90, 1e4), {"n_updates": 1000}, "1.0 k parameters, about 1 MB of memory, about 1 d 1 h"),
        (
            Estimate(999, None, 0.1, 1e4),
            {"n_updates": 8900, "max_seconds": 900.0},
            "999 parameters, about 8,900 updates in at most 15 min",
        ),
    ],
)
def test_estimate_is_said_in_a_sentence(found, expected, sentence):
    assert found.describe(**expected) == sentence


@MAY_FORK
def test_peak_is_known_without_proc(tmp_path, monkeypatch):
    """Asked in a child, where no other thread can grow between two questions."""

    def peaks() -> list[int]:
        known = module.peak_memory(CPU)
        monkeypatch.setattr(module, "PROC_STATUS", Path("/does/not/exist"))
        return [known, module.peak_memory(CPU)]

    known, found = told_by_child(peaks, tmp_path / "told.json")
    assert abs(found - known) < 0.05 * known


def test_peak_is_counted_from_the_trial_and_asked_when_all_is_in_memory(monkeypatch):
    """After the largest batch, when every weight has its gradient and the optimizer remembers all it ever will."""
    state, events = new_state(), []
    parameters = [parameter for _, parameter in state.optimizer.named_parameters()]

    def asked(device) -> int:
        remembered = {parameter for part in state.optimizer.parts for parameter in part.state}
        events.append(remembered == set(parameters) and all(p.grad is not None for p in parameters))
        return 1

    def loss(model, batch):
        events.append(batch.n_ids)
        return total_loss(model, batch)

    monkeypatch.setattr(module, "reset_peak_memory", lambda device: events.append("forgotten"))
    monkeypatch.setattr(module, "peak_memory", asked)
    batches = [small_batch("gpt"), small_batch("gpt", length=7)]
    estimate(state.model, batches, loss, gradient_accumulation=1, optimizer=state.optimizer)
    small, large = (batch.n_ids for batch in batches)
    assert events[:5] == ["forgotten", large, large, True, small]


MEASURE = """
import sys, torch
sys.path.insert(0, {tests!r})
from training.small import small_batch, total_loss
from training.toy import new_state, SETTINGS
from sightline.training.estimate import PROC_CLEAR_REFS, estimate, peak_memory
state = new_state("gpt", d_model=64, d_ff=256, vocab_size=30_000, max_length=128)
state.ema = None
ballast = torch.ones(90_000_000)  # reading the data took more than training will
del ballast
batch = small_batch("gpt", n_rows=8, length=60, words=30_000)
found = estimate(state.model, [batch], total_loss, gradient_accumulation=1, optimizer=state.optimizer)
PROC_CLEAR_REFS.write_text("5")
for step in range(1, 4):
    total_loss(state.model, batch).backward()
    state.optimizer.update(step, learning_rate=1e-3)
    state.optimizer.zero_grad()
print(found.memory_bytes / peak_memory(torch.device("cpu")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the peak cannot be counted anew")
def test_memory_is_what_the_run_then_needs():
    code = MEASURE.format(tests=str(Path(__file__).parents[1]))
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0.9 < float(told) < 1.15


SHAPES = [(8, 1), (16, 2), (32, 6)]
MANY_STEPS = 150
"""More than twice as many as any of these models needs: the check ends when the batch is learned."""


def layers(family: str, n: int) -> dict[str, int]:
    half = (n + 1) // 2
    return {"n_encoder_layers": half, "n_decoder_layers": half} if family == "transformer" else {"n_layers": n}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_sound_model_of_any_family_overfits_a_batch(family, width, depth):
    model = tiny_model(family, d_model=width, d_ff=4 * width, **layers(family, depth))
    found = run_overfit_check(model, small_batch(family), mean_loss, steps=MANY_STEPS)
    assert found.passed, found
    assert found.final_loss < 0.1 * found.initial_loss
    assert found.describe().startswith("passed, the model can overfit a batch: the loss on one small batch went from ")


@pytest.mark.parametrize("family", FAMILIES)
def test_model_and_generators_stay_as_they_are(family):
    model = tiny_model(family)
    mean_loss(model, small_batch(family)).backward()
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    before, generators = digest(tensors), generators_now()
    run_overfit_check(model, small_batch(family), mean_loss, steps=3)
    assert digest(tensors) == before
    assert generators_now() == generators
    assert model.training


def test_dropout_is_off():
    model = tiny_model("gpt", dropout=0.9)
    assert run_overfit_check(model, small_batch("gpt"), mean_loss, steps=MANY_STEPS).passed


def test_frozen_model_fails_with_its_cause():
    model = tiny_model("gpt").requires_grad_(False)
    found = run_overfit_check(model, small_batch("gpt"), mean_loss)
    assert not found.passed
    assert found.initial_loss == found.final_loss
    assert "it hardly moved: the weights are frozen" in found.describe()


def test_loss_that_does_not_reach_the_weights_is_found():
    found = run_overfit_check(
        tiny_model("gpt"), small_batch("gpt"), lambda model, batch: torch.ones((), requires_grad=True)
    )
    assert "it hardly moved" in found.describe()


def test_contradicting_targets_are_found():
    """With several targets for one source, the best a model can do is guess."""
    batch = small_batch("transformer", n_rows=4, length=3)
    batch.source[:] = batch.source[0]
    batch.inputs[:] = batch.inputs[0]
    batch.targets[:] = torch.arange(1, 5)[:, None]
    found = run_overfit_check(tiny_model("transformer"), batch, mean_loss)
    assert "or the same input occurs with different targets" in found.describe()


def test_learning_rate_that_is_given_is_the_one_that_is_used():
    found = run_overfit_check(tiny_model("gpt"), small_batch("gpt"), mean_loss, learning_rate=1e-9)
    assert not found.passed


@pytest.mark.parametrize(
    ("initial_loss", "final_loss", "cause"),
    [
        (float("nan"), float("nan"), "not finite from the start"),
        (3.0, float("inf"), "it diverged"),
        (3.0, 2.9, "hardly moved"),
        (3.0, 1.5, "this one may be too small"),
    ],
)
def test_failure_names_its_likely_cause(initial_loss, final_loss, cause):
    assert cause in OverfitCheck(initial_loss, final_loss, passed=False).describe()


def test_loss_that_is_not_a_number_ends_the_check_at_once():
    model = tiny_model("gpt")
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    assert "from the start" in run_overfit_check(model, small_batch("gpt"), mean_loss).describe()
