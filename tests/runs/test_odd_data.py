"""Little, odd and unlucky data: a run learns from it, or says in a sentence why it cannot."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch

import sightline
from sightline import bundle
from sightline.data.datasets.splits import group_lines, has_neighbors, hold_out_line_groups, validation_size
from sightline.errors import RefusedError, SettingsError, SightlineError
from sightline.evaluation import translation as translation_module
from sightline.runs import examples as tokenization_module
from sightline.runs import train
from sightline.training.metrics import ValidationResult, read_metrics
from sightline.training.report import SilentReporter

from .small import overrides, sentence

TASKS = ("translation", "chat", "language-model", "masked-language-model", "classification")


@contextmanager
def suppress_if(kind: type[Exception], pattern: str) -> Iterator[None]:
    """Let an error pass whose message is one of those expected."""
    try:
        yield
    except kind as error:
        if not re.search(pattern, str(error)):
            raise


def lines_of(task: str, n: int) -> list[str]:
    """Lines of a file for a task, of which some are numbers only."""
    texts = [f"{sentence(number)} {number}" if number % 3 else str(number * 11) for number in range(n)]
    return {
        "translation": [f"{text}\t{text[::-1]}" for text in texts],
        "chat": [f"{text}\tyes {text}" for text in texts],
        "classification": [f"{text}\t{'even' if number % 2 else 'odd'}" for number, text in enumerate(texts)],
    }.get(task, texts)


@pytest.mark.parametrize("n", [1, 2, 3, 12, 97, 98])
@pytest.mark.parametrize("task", TASKS)
def test_a_small_corpus_trains_or_is_refused_with_its_reason(task, n, tmp_path):
    path = tmp_path / ("text.txt" if task.endswith("language-model") else "data.tsv")
    path.write_text("".join(f"{line}\n" for line in lines_of(task, n)), encoding="utf-8")
    settings = overrides(tmp_path, task, **{"data.train": str(path), "training.max_steps": 2})
    settings["training.validate_every"] = 1
    reasons = "no validation set can be held out|only label is|two consecutive"
    with nullcontext() if n > 12 else suppress_if(RefusedError, reasons):
        assert train(task, settings, out=tmp_path / "run").scores["validation_loss"] > 0


def test_texts_longer_than_the_model_are_dropped_and_counted(tmp_path):
    settings = overrides(tmp_path, "translation", **{"model.max_length": 12})
    reporter = SilentReporter()
    train("translation", settings, out=tmp_path / "run", reporter=reporter)
    assert any("longer than max_length, dropped" in message for message in reporter.messages)


@pytest.mark.parametrize("task", ["language-model", "masked-language-model"])
def test_samples_fit_a_short_model(task, tmp_path):
    train(task, overrides(tmp_path, task, **{"model.max_length": 12}), out=tmp_path / "run")


def test_next_sentence_prediction_needs_plain_text(tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text("\n".join(json.dumps({"text": sentence(n)}) for n in range(40)), encoding="utf-8")
    settings = overrides(tmp_path, "masked-language-model", **{"data.train": str(path)})
    with pytest.raises(
        SettingsError,
        match=r"needs plain text, one sentence per line, not jsonl: provide such a text, or set model\.heads=mlm",
    ):
        train("masked-language-model", settings, out=tmp_path / "run")
    train("masked-language-model", {**settings, "model.heads": ["mlm"]}, out=tmp_path / "other")


def test_training_and_validation_may_have_files_of_one_name(tmp_path):
    files = [tmp_path / part / "data.tsv" for part in ("a", "b")]
    for number, path in enumerate(files):
        path.parent.mkdir()
        path.write_text("".join(f"{line}\n" for line in lines_of("translation", 20 + number)), encoding="utf-8")
    settings = overrides(tmp_path, "translation", **{"data.train": str(files[0]), "data.valid": str(files[1])})
    train("translation", settings, out=tmp_path / "run")
    files[0].write_text("another\tfile\n" * 30, encoding="utf-8")
    with pytest.raises(RefusedError, match=r"data\.sha256 was"):
        train(None, out=tmp_path / "run", resume=True)


def test_the_tokenizer_of_a_large_corpus_knows_both_languages(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenization_module, "MAX_TRAINING_BYTES", 900)
    path = tmp_path / "many.tsv"
    path.write_text("aaaa bbbb\tzzzz yyyy\n" * 100 + "cc\txx\n", encoding="utf-8")
    result = train("translation", overrides(tmp_path, "translation", **{"data.train": str(path)}), out=tmp_path / "run")
    assert {"aaaa", "zzzz"} <= set(bundle.load(result.folder).words)


def test_of_equal_scores_the_lower_loss_is_the_better():
    worse, better = (ValidationResult(loss, ("bleu", 0.0), True) for loss in (2.0, 1.0))
    assert better.selection_key("score", step=1) > worse.selection_key("score", step=1)
    assert ValidationResult(9.0, ("bleu", 1.0), True).selection_key("score", step=1) > better.selection_key(
        "score", step=1
    )
    assert worse.selection_key("last", step=2) > better.selection_key("last", step=1)


def test_one_word_targets_still_find_the_best_model(tmp_path, monkeypatch):
    """BLEU is zero whatever the model says (here for sure): the loss must decide, or the first would stay the best."""
    scored = translation_module.translation_scores
    monkeypatch.setattr(translation_module, "translation_scores", lambda *texts: replace(scored(*texts), bleu=0.0))
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"{n}\t{'even' if n % 2 else 'odd'}\n" for n in range(60)), encoding="utf-8")
    settings = overrides(tmp_path, "translation", **{"data.train": str(path), "training.max_steps": 16})
    settings |= {"training.validate_every": 4, "training.patience": 3, "training.learning_rate": 0.01}
    result = train("translation", settings, out=tmp_path / "run")
    records = [record for record in read_metrics(result.folder / "metrics.jsonl") if "validation_loss" in record]
    assert {record["bleu"] for record in records} == {0.0}
    assert records[-1]["best_step"] > 4


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_run_may_be_resumed_with_more_steps(schedule, tmp_path):
    settings = overrides(tmp_path, "translation", **{"training.max_steps": 4, "training.schedule": schedule})
    reporter = SilentReporter()
    train("translation", settings, out=tmp_path / "run")
    result = train("translation", ["training.max_steps=10"], out=tmp_path / "run", resume=True, reporter=reporter)
    assert read_metrics(result.folder / "metrics.jsonl")[-1]["step"] == 10
    assert any("training.max_steps was 4 and is 10" in warning for warning in reporter.warnings)


def test_a_fine_tuned_model_keeps_its_shape_and_embeddings(tmp_path):
    shape = {"model.pre_norm": False, "model.max_length": 64, "model.heads": ["mlm"], "model.dropout": 0.0}
    start = train(
        "masked-language-model", overrides(tmp_path, "masked-language-model", **shape), out=tmp_path / "start"
    )
    mine = overrides(tmp_path, "classification")
    sizes = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_layers", "tokenizer.vocab_size")
    settings = {name: value for name, value in mine.items() if name not in sizes}
    settings |= {"model.init_from": str(start.folder), "training.max_steps": 1, "training.learning_rate": 1e-12}
    reporter = SilentReporter()
    result = train("classification", settings, out=tmp_path / "fine", reporter=reporter)
    assert any("newly initialized: heads.sequence_classification, pooler" in message for message in reporter.messages)
    texts = ["red cat", "blue bird"]
    before, after = (sightline.load(folder).embed(texts) for folder in (start.folder, result.folder))
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)
    with pytest.raises(SettingsError, match=r"model\.init_from already sets model\.n_layers"):
        train("classification", {**settings, "model.n_layers": 3}, out=tmp_path / "other")


def test_a_demo_does_not_touch_another_run(tmp_path):
    from sightline.runs.demo import demo

    result = train("translation", overrides(tmp_path, "translation"), out=tmp_path / "run")
    with pytest.raises(SightlineError, match=r"holds another run \(translation\), not the demo"):
        demo(result.folder, SilentReporter(), retrain=True)
    assert (result.folder / "run.json").exists()


def test_a_failed_run_does_not_take_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RefusedError):
        train("translation", {"data.train": "missing.tsv"})
    assert str(train("translation", overrides(tmp_path, "translation")).folder) == "runs/translation"
    assert str(train("translation", overrides(tmp_path, "translation")).folder) == "runs/translation-2"


@pytest.mark.parametrize(("n", "documents"), [(97, 1), (98, 1), (1025, 1), (40, 8), (12, 3)])
def test_held_out_line_groups_leave_neighbors_in_both_splits(n, documents):
    import numpy as np

    which = np.sort(np.arange(n) % documents)
    held_out = hold_out_line_groups(which, seed=1, size=validation_size(n))
    numbers = group_lines(which)
    assert 0 < held_out.sum() < n / 2
    assert has_neighbors(numbers[held_out])
    assert has_neighbors(numbers[~held_out])
