"""A saved trace loads equal; an invalid one is refused in one line, and nothing in it is executed."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from sightline.errors import InputError, ModelFileError
from sightline.tracing import EVERYTHING, Trace

from .hostile import CASES
from .models import BUNDLES, SENTENCE, pipeline, text_for, trace_options


def same(one: object, other: object) -> bool:
    """Compare two traces, or parts of them, to the last bit."""
    if dataclasses.is_dataclass(one):
        fields = dataclasses.fields(one)
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in fields
        )
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "trace"
    pipeline("transformer").trace(SENTENCE, beam_size=3, hypotheses=True, head_ablation=True).save(folder)
    return folder


@pytest.mark.parametrize("name", BUNDLES)
def test_saved_trace_loads_equal(name, tmp_path):
    beam = {} if name in ("filler", "classifier", "tagger") else {"beam_size": 3, "hypotheses": True}
    trace = pipeline(name).trace(
        text_for(name), activations=EVERYTHING, head_ablation=True, heads=[0], **beam, **trace_options(name)
    )
    trace.save(tmp_path / "trace")
    assert sorted(path.name for path in (tmp_path / "trace").iterdir()) == ["trace.json", "trace.safetensors"]
    assert same(Trace.load(tmp_path / "trace"), trace)
    assert same(Trace.load(tmp_path / "trace" / "trace.json"), trace)


def test_trace_in_half_precision_is_half_as_large_and_nearly_equal(tmp_path):
    trace = pipeline("transformer").trace(SENTENCE, activations=EVERYTHING)
    for half in (False, True):
        trace.save(tmp_path / str(half), half=half)
    whole, part = ((tmp_path / str(half) / "trace.safetensors").stat().st_size for half in (False, True))
    assert part < 0.7 * whole
    loaded = Trace.load(tmp_path / "True")
    for name, array in trace.activations.items():
        assert loaded[name].dtype == np.float32
        np.testing.assert_allclose(loaded[name], array, rtol=2e-3, atol=1e-3)


def test_saving_again_replaces_a_trace_and_nothing_else(saved, tmp_path):
    trace = Trace.load(saved)
    trace.save(tmp_path / "trace")
    trace.save(tmp_path / "trace" / "trace.json")
    (tmp_path / "trace" / "thesis.tex").touch()
    with pytest.raises(ModelFileError, match=r"contains files that are not part of a trace \(thesis.tex\)"):
        trace.save(tmp_path / "trace")
    (tmp_path / "file").touch()
    with pytest.raises(ModelFileError, match="cannot be replaced by a trace folder"):
        trace.save(tmp_path / "file")


def test_trace_that_could_not_be_read_back_is_not_written(saved, tmp_path):
    trace = Trace.load(saved)
    step = trace.steps[0]
    steps = (dataclasses.replace(step, candidates=step.candidates * (110_000 // len(step.candidates))),)
    with pytest.raises(InputError, match=r"is not saved: .* ask for fewer candidates"):
        dataclasses.replace(trace, steps=steps).save(tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("case", CASES)
def test_hostile_trace_is_refused_in_one_line(saved, tmp_path, monkeypatch, case):
    spoil, reason = CASES[case]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(saved, tmp_path / "trace")
    spoil(tmp_path / "trace")
    with pytest.raises(ModelFileError, match=reason) as caught:
        Trace.load(tmp_path / "trace")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert not (tmp_path / "canary").exists()


def test_missing_folder_is_reported(tmp_path):
    with pytest.raises(ModelFileError, match="is missing: this is not a trace folder"):
        Trace.load(tmp_path / "nowhere")


def test_json_on_disk_has_a_format_and_the_version_that_wrote_it(saved):
    entries = json.loads((saved / "trace.json").read_text())
    assert entries["format"] == 2
    assert entries["sightline"] == Trace.load(saved).sightline
