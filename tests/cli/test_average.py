"""`sightline average`: the mean of checkpoints, in a folder that is used like any model."""

import json
from dataclasses import replace

import pytest
import torch

from sightline.bundle import load, save
from sightline.bundle.training_facts import TrainingFacts
from sightline.training.checkpoint import save_checkpoint
from sightline.training.optimizer import make_optimizer
from sightline.training.settings import TrainingSettings
from sightline.training.state import Progress, TrainingState

from .conftest import BUNDLES

STEPS = (10, 20, 1000)


@pytest.fixture
def run(tmp_path):
    """The folder of a run: a model, and checkpoints whose weights are all 1, 2 and 3."""
    bundle = BUNDLES["generator"]()
    bundle = replace(bundle, card="# A model\n", generation=replace(bundle.generation, max_new_tokens=5))
    save(bundle, tmp_path / "model")
    for value, step in enumerate(STEPS, 1):
        with torch.no_grad():
            for parameter in bundle.model.parameters():
                parameter.fill_(value)
        optimizer = make_optimizer(bundle.model, TrainingSettings())
        state = TrainingState(bundle.model, optimizer, None, Progress(step=step))
        save_checkpoint(state, tmp_path / "checkpoints", keep_checkpoints=9)
    return tmp_path


def weights(folder) -> set[float]:
    return {value for parameter in load(folder).model.parameters() for value in parameter.unique().tolist()}


def test_weights_are_the_mean_of_the_last(sightline, run):
    assert sightline("average", run, "--last", 2).lines == [
        f"{run}/model-average: the mean of 2 checkpoints, steps 20, 1000"
    ]
    assert weights(run / "model-average") == {2.5}
    sightline("average", run, "--last", 3)
    assert weights(run / "model-average") == {2.0}


def test_all_but_the_weights_is_the_model_of_the_run(sightline, run):
    assert sightline("average", run, "--last", 1, "--out", run / "elsewhere").code == 0
    ours, theirs = load(run / "elsewhere"), load(run / "model")
    assert (ours.task_config, ours.generation, ours.words) == (theirs.task_config, theirs.generation, theirs.words)
    assert ours.tokenizer.to_json() == theirs.tokenizer.to_json()
    assert ours.card == "# A model\n\n## Average\n\nThe weights are the mean of those after steps 1000.\n"


def test_average_is_used_like_any_model(sightline, run):
    sightline("average", run, "--last", 2)
    assert sightline("generate", run / "model-average", "tiny").code == 0


def test_json_tells_folder_and_steps(sightline, run):
    [line] = sightline("average", run, "--last", 3, "--json").lines
    assert json.loads(line) == {"folder": str(run / "model-average"), "steps": list(STEPS)}


def test_fewer_checkpoints_than_requested_are_refused(sightline, run):
    reason = (
        f"{run}: 5 checkpoints were requested, but there are only 3 (steps 10, 20, 1000): use --last 3, or train with "
        "training.keep_checkpoints=5"
    )
    assert sightline("average", run, "--last", 5) == (2, "", f"sightline: {reason}\n")
    assert not (run / "model-average").exists()


def test_folder_without_checkpoints_is_refused(sightline, folder):
    ran = sightline("average", folder("generator"), "--last", 2)
    assert (ran.code, ran.out) == (2, "")
    assert "there are no checkpoints: give a run folder" in ran.err


def test_damaged_checkpoint_is_refused(sightline, run):
    path = run / "checkpoints" / "step-00000020" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ran = sightline("average", run, "--last", 2)
    assert ran == (2, "", f"sightline: {path}: is damaged: its digest differs from SHA256SUMS\n")


def test_checkpoints_of_another_model_are_refused(sightline, run):
    save(BUNDLES["filler"](), run / "model")
    ran = sightline("average", run, "--last", 2)
    assert (ran.code, ran.out) == (2, "")
    assert "does not fit config.json" in ran.err


def test_average_does_not_overwrite_other_folders(sightline, run):
    ran = sightline("average", run, "--last", 2, "--out", run)
    assert (ran.code, ran.out) == (2, "")
    assert "choose another folder" in ran.err


def test_scores_of_other_weights_are_not_kept(sightline, run, tmp_path):
    facts = TrainingFacts(("a.txt",), 20, 3, {"perplexity": 12.5}, step=1000)
    save(replace(load(run), training=facts), run / "model")
    sightline("average", run, "--out", tmp_path / "mean")
    assert load(tmp_path / "mean").training == TrainingFacts(("a.txt",), 20, 3)
