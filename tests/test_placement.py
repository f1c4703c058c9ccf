"""Every tensor follows the model: all of this runs on a device that is not the CPU, and says the same as on the CPU."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pretend_device import MPS, PretendTensor, pretend_device
from runs.small import overrides, weights_of
from serving.standing import standing
from serving.wire import asking
from sightline import bundle, load, runtime
from sightline.bench.shapes import pair_batch
from sightline.bench.train import Sightline, training_step
from sightline.cli.main import main
from sightline.decoding import DecodingSettings
from sightline.decoding.continuous_batch import ContinuousBatch
from sightline.evaluation.language_model import evaluate_filler, evaluate_text
from sightline.model.config import TransformerConfig
from sightline.pipelines import Pipeline
from sightline.runs import train
from sightline.runs.folder import pipeline_at
from sightline.serving.http.settings import ServingSettings
from sightline.serving.service import service
from sightline.studio.word_map import WordMap
from sightline.training.report import SilentReporter
from sightline.training.state import RandomStates

TASKS = ("translation", "chat", "language-model", "masked-language-model", "classification")
THOROUGH = {
    "model.dropout": 0.0,  # drawn in another way on the device
    "training.gradient_accumulation": 2,
    "training.grad_clip": 1.0,
    "training.ema_decay": 0.9,
    "training.optimizer": "muon",
    "training.schedule": "constant",
    "training.min_lr_ratio": 0.0,
    "training.learning_rate": 0.01,
    "training.snapshots": True,
}
TEXT = "red green blue"


@pytest.fixture
def device(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(runtime._defaults, "device", "auto")
    with pretend_device():
        yield


@pytest.fixture(scope="module")
def trained_on_cpu(tmp_path_factory) -> Callable[[str], Path]:
    """A run of each task on the CPU, to be read only."""
    folder = tmp_path_factory.mktemp("placement")
    return lambda task: run(task, folder / task) if not (folder / task / "model").exists() else folder / task


def run(task: str, folder: Path, *, device: str = "cpu", resume: bool = False, reporter=None, **more: object) -> Path:
    settings = overrides(folder.parent / f"{task}-data", task, **{**THOROUGH, **more})
    return train(task, settings, out=folder, device=device, resume=resume, reporter=reporter).folder


def is_on_device(pipeline: Pipeline) -> bool:
    return {parameter.device for parameter in pipeline.model.parameters()} == {MPS}


class TestPretense:
    """The device that is not there refuses what a real one does."""

    def test_tensors_of_two_devices_do_not_mix(self, device):
        there, here = torch.ones(2, device=MPS), torch.ones(2)
        assert (there.device, (there + 1).device, there.cpu().device) == (MPS, MPS, here.device)
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(RuntimeError, match="same device"):
            here[torch.tensor([0], device=MPS)]
        assert (there + here.sum()).tolist() == [3, 3]  # a number may join

    def test_device_lacks_what_apples_lack(self, device):
        with pytest.raises(TypeError, match="numpy"):
            torch.ones(2, device=MPS).numpy()
        with pytest.raises(TypeError, match="numpy"):
            np.asarray(torch.ones(2, device=MPS))
        with pytest.raises(TypeError, match="float64"):
            torch.ones(2, device=MPS).double()
        with pytest.raises(RuntimeError, match="does not handle"):
            torch.empty(2, dtype=torch.int64, device=MPS).random_(-(1 << 63), None)

    def test_tied_weights_stay_tied_when_they_move(self, device):
        first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        second.weight = first.weight
        both = torch.nn.ModuleList([first, second]).to(MPS)
        assert both[0].weight is both[1].weight
        assert isinstance(both[0].weight, PretendTensor)


@pytest.mark.parametrize("task", TASKS)
def test_training_is_the_same_to_the_last_bit(task, trained_on_cpu, tmp_path, device):
    """Accumulation, clipping, Muon, EMA, validation, checkpoints and the trial before the run, in every task."""
    folder = run(task, tmp_path / "run", device="mps")
    assert weights_of(folder) == weights_of(trained_on_cpu(task))
    assert json.loads((folder / "run.json").read_text())["environment"]["device"] == "mps"


def test_dropout_and_label_smoothing_and_r_drop_run(tmp_path, device):
    run("translation", tmp_path / "run", device="mps", **{"model.dropout": 0.2, "training.r_drop": 1.0})


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_resumed_run_is_the_uninterrupted_one(optimizer, tmp_path, device):
    changes = {"training.optimizer": optimizer, "training.weight_decay": 0.0}
    whole = run("language-model", tmp_path / "whole", device="mps", **changes)
    run("language-model", tmp_path / "parts", device="mps", **changes, **{"training.max_steps": 3})
    parts = run("language-model", tmp_path / "parts", device="mps", resume=True, **changes)
    assert weights_of(parts) == weights_of(whole)


@pytest.mark.parametrize(("first", "then"), [("mps", "cpu"), ("cpu", "mps")])
def test_run_resumes_on_another_device_with_a_note(first, then, tmp_path, device):
    folder, said = tmp_path / "run", SilentReporter()
    run("translation", folder, device=first, **{"training.max_steps": 3})
    run("translation", folder, device=then, resume=True, reporter=said)
    [note] = [text for text in said.warnings if "device" in text]
    assert f"device was {first} and is {then}" in note
    assert "not bit-identical" in note


def test_generator_of_the_device_is_stored_and_restored():
    with pretend_device() as generator:
        entries = json.loads(json.dumps(RandomStates.capture().to_entries()))
        first = torch.rand(3, generator=generator).tolist()
        RandomStates.from_entries(entries).restore()
        assert torch.rand(3, generator=generator).tolist() == first


def test_checkpoint_without_the_generator_of_a_device_is_read():
    entries = RandomStates.capture().to_entries()
    del entries["mps"]
    assert RandomStates.from_entries(entries).mps == ()


def test_saved_model_is_the_loaded_one(trained_on_cpu, tmp_path, device):
    loaded = bundle.load(trained_on_cpu("translation"), device=MPS)
    assert {parameter.device for parameter in loaded.model.parameters()} == {MPS}
    bundle.save(loaded, tmp_path / "model")
    assert weights_of(tmp_path / "model") == weights_of(trained_on_cpu("translation"))


def on_both(folder: Path, use: Callable[[Pipeline], object]) -> tuple[object, object]:
    """Return what a pipeline says on the CPU and on the device."""
    here, there = load(folder, device="cpu"), load(folder, device="mps")
    assert is_on_device(there)
    assert not is_on_device(here)
    return use(here), use(there)


USES: dict[str, dict[str, Callable]] = {
    "translation": {
        "greedy": lambda it: it.translate([TEXT, "one"], beam_size=1),
        "prefix": lambda it: it.translate([TEXT], prefix="RED", beam_size=1, stop=("ZZ",)),
        "alignment": lambda it: it.translations([TEXT], alignment=True, settings=it.settings(beam_size=1)),
        "scores": lambda it: [row.tolist() for row in it.token_log_probs([it.tokenizer.encode(TEXT)], ["RED"])],
        "embeddings": lambda it: it.embed([TEXT, "", "one two"]).tolist(),
        "neighbors": lambda it: it.neighbors("red"),
        "word vectors": lambda it: it.word_vectors(["red"]).tolist(),
        "trace": lambda it: [
            step.choice for step in it.trace(TEXT, beam_size=1, activations="*", head_ablation=True).steps
        ],
    },
    "chat": {"reply": lambda it: it.reply([TEXT], beam_size=1)},
    "language-model": {
        "greedy": lambda it: it.generate(TEXT, do_sample=False),
        "log-likelihoods": lambda it: it.log_likelihoods([TEXT, "one two"]),
        "evaluation": lambda it: evaluate_text(it, [TEXT] * 4, context=3),
        "stream": lambda it: list(it.stream(TEXT, do_sample=False)),
        "trace": lambda it: len(it.trace(TEXT, do_sample=False, head_ablation=True).steps),
        "embeddings": lambda it: it.embed([TEXT]).tolist(),
    },
    "masked-language-model": {
        "fillings": lambda it: it.fill("red [MASK] blue"),
        "evaluation": lambda it: evaluate_filler(it, [TEXT] * 4),
        "trace": lambda it: len(it.trace("red [MASK] blue", head_ablation=True).steps),
        "word map": lambda it: WordMap(it, ["red", "blue", "one"], "cosine").pca.components.tolist(),
    },
    "classification": {
        "classes": lambda it: it.classify([TEXT, "one"]),
        "trace": lambda it: len(it.trace(TEXT, head_ablation=True).steps),
    },
}


@pytest.mark.parametrize(("task", "use"), [(task, use) for task, uses in USES.items() for use in uses])
def test_pipeline_says_the_same_as_on_the_cpu(task, use, trained_on_cpu, device):
    here, there = on_both(trained_on_cpu(task), USES[task][use])
    assert here == there


SEARCHES = {
    "beam": {"beam_size": 3, "n_best": 2},
    "beam with coverage": {"beam_size": 2, "coverage_penalty": 0.2, "length_penalty": 0.6},
    "beam with forced words": {"beam_size": 3, "forced_words": ((40, 41),)},
    "sampling": {"do_sample": True, "seed": 1, "n_best": 2},
    "sampling from the best": {"do_sample": True, "seed": 1, "top_k": 5, "top_p": 0.8, "min_p": 0.01},
    "many rules": {
        "repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "min_new_tokens": 3, "bad_words": ((5,), (6, 7)),
    },
}  # fmt: skip


@pytest.mark.parametrize("search", SEARCHES)
def test_search_works_on_the_device(search, trained_on_cpu, device):
    """With 32-bit sums, so near ties may be broken in another way than on the CPU."""
    translator = load(trained_on_cpu("translation"), device="mps")
    settings = replace(DecodingSettings(max_new_tokens=6), **SEARCHES[search])
    found = translator.translations([TEXT, "one two"], settings=settings)
    assert [len(several) for several in found] == [settings.n_best] * 2


def test_beam_of_a_trace_is_drawn_from_the_device(trained_on_cpu, device):
    translator = load(trained_on_cpu("translation"), device="mps")
    assert translator.trace(TEXT, beam_size=2, hypotheses=True).tree is not None


def test_searches_leave_a_running_batch_on_the_device(trained_on_cpu, device):
    """Even the first of them, after which the state is reordered by what the others are on."""
    generator = load(trained_on_cpu("language-model"), device="mps")
    settings = DecodingSettings(max_new_tokens=4, min_new_tokens=4)
    jobs = [generator.create_job(text, settings) for text in (TEXT, "one two")]
    batch = ContinuousBatch(generator.engine.step)
    with generator.inference_mode():
        batch.add([job.search for job in jobs], generator.engine.prefill([job.prompt for job in jobs]))
        batch.advance()
        batch.remove([jobs[0].search])
        while batch.n_rows:
            batch.advance()
    assert len(jobs[1].results()) == 1


def test_server_answers_from_the_device(trained_on_cpu, device):
    models = {task: load(trained_on_cpu(task), device="mps") for task in ("chat", "language-model")}
    with standing(service(models, ServingSettings())) as server, asking(server.url) as client:
        said = {"model": "chat", "messages": [{"role": "user", "content": TEXT}]}
        replied = client.post("/v1/chat/completions", json=said)
        completed = client.post("/v1/completions", json={"model": "language-model", "prompt": TEXT, "max_tokens": 3})
        embedded = client.post("/v1/embeddings", json={"model": "language-model", "input": [TEXT]})
    assert [answer.status_code for answer in (replied, completed, embedded)] == [200] * 3


def test_bench_trains_on_the_device(device):
    work = pair_batch(50, 4, 5).to(MPS)
    model = Sightline(TransformerConfig(vocab_size=50, d_model=8, n_heads=2, d_ff=16)).to(MPS)
    training_step(model.train(), work)()
    assert model.model.output.weight.grad.device == MPS


def test_snapshots_open_where_the_model_is(trained_on_cpu, device):
    folder = trained_on_cpu("translation")
    assert is_on_device(pipeline_at(folder, 2))  # mps is what auto finds here
    assert not is_on_device(pipeline_at(folder, 2, like=load(folder, device="cpu")))


def test_device_of_the_command_line_reaches_the_model(trained_on_cpu, device, monkeypatch, capsys):
    seen = []
    embed = Pipeline.embed
    monkeypatch.setattr(Pipeline, "embed", lambda it, *a, **k: seen.append(is_on_device(it)) or embed(it, *a, **k))
    for options in ([], ["--device", "cpu"], ["--device=mps"]):
        assert main(["embed", str(trained_on_cpu("language-model")), TEXT, "--json", *options]) == 0
    assert seen == [True, False, True]
