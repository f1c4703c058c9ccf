"""Snapshots of a run: each has the weights of its step and the tokenizer of the run."""

import pytest
import torch

from sightline import bundle
from sightline.errors import InputError
from sightline.runs import train
from sightline.runs.folder import has_best_model, list_snapshots, pipeline_at

from .small import overrides


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("snapshots")
    more = {"training.snapshots": True, "data.languages": ["en", "de"], "data.train": str(folder / "pairs.tsv")}
    settings = {**overrides(folder, "translation"), **more}
    (folder / "pairs.tsv").write_text("".join(f"red cat {n}\trote Katze {n}\tde\n" for n in range(60)))
    return train("translation", settings, out=folder / "run").folder


def test_snapshots_are_found_by_step(run):
    assert list(list_snapshots(run)) == [0, 1, 2, 4]
    assert has_best_model(run)


def test_a_folder_without_snapshots_has_none(tmp_path):
    assert list_snapshots(tmp_path) == {}
    assert not has_best_model(tmp_path)


@pytest.mark.parametrize("step", [0, 1, 4])
def test_each_step_has_its_own_weights_and_the_tokenizer_of_the_run(run, step):
    kept = pipeline_at(run, None)
    expected = bundle.load(run / "snapshots" / f"step-{step:08d}").model.state_dict()
    for found in (pipeline_at(run, step), pipeline_at(run, step, like=kept)):
        assert type(found) is type(kept)
        assert found.languages == kept.languages == ("en", "de")
        assert found.tokenizer.to_json() == kept.tokenizer.to_json()
        assert found.generation == kept.generation
        torch.testing.assert_close(found.model.state_dict(), expected, rtol=0, atol=0)


def test_each_step_can_be_asked_and_traced(run):
    traces = [pipeline_at(run, step).trace("red cat 1", to="de", target="rote Katze 1") for step in (0, 4)]
    assert traces[0].target == traces[1].target
    assert traces[0].steps[0].log_probability != traces[1].steps[0].log_probability


def test_an_unknown_step_is_refused_with_the_known_ones(run):
    with pytest.raises(InputError, match=r"no snapshot of step 3: this run has 0, 1, 2, 4"):
        pipeline_at(run, 3)
