"""`sightline train` as users type it."""

import json
import tomllib

import pytest

from runs.small import TINY, write_corpus

ARGUMENTS = [f"{name}={value}" for name, value in {**TINY, "model.n_layers": 1}.items()]


def test_train_goes_from_a_file_to_a_model(sightline, tmp_path):
    path = write_corpus(tmp_path, "classification")
    found = sightline("train", "classification", f"data.train={path}", *ARGUMENTS, "--out", str(tmp_path / "run"))
    assert (found.code, found.out) == (0, f"{tmp_path / 'run'}\n")
    assert "parameters, about" in found.err
    assert f'to use it: sightline classify {tmp_path / "run"} "…"' in found.err
    asked = sightline("classify", str(tmp_path / "run"), "red cat", "--json")
    assert json.loads(asked.out)["label"] in ("red", "green", "blue")


def test_train_resumes_without_naming_the_recipe(sightline, tmp_path):
    path = write_corpus(tmp_path, "classification")
    sightline("train", "classification", f"data.train={path}", *ARGUMENTS, "--out", str(tmp_path / "run"))
    found = sightline("train", "--resume", "--out", str(tmp_path / "run"))
    assert found.code == 0
    assert "resuming from" in found.err
    assert "restored: weights, optimizer, random generators" in found.err


def test_train_lists_its_recipes(sightline):
    found = sightline("train", "--list")
    assert found.code == 0
    assert [line.split()[0] for line in found.out.splitlines()] == sorted(
        line.split()[0] for line in found.out.splitlines()
    )
    assert "paper-base" in found.out


@pytest.mark.parametrize(
    "recipe", ["translation", "language-model", "masked-language-model", "classification", "paper-big"]
)
def test_show_config_prints_a_valid_recipe(sightline, recipe):
    found = sightline("train", "--show-config", recipe)
    assert found.code == 0
    sections = tomllib.loads(found.out)
    assert sections["training"]["seed"] == 1
    assert all("#" in line for line in found.out.splitlines() if " = " in line and not line.startswith("task"))


def test_overfit_batch_reports_whether_the_model_can_learn(sightline, tmp_path):
    path = write_corpus(tmp_path, "translation")
    sizes = ["model.d_model=32", "model.n_heads=2", "model.d_ff=64", "tokenizer.vocab_size=300"]
    found = sightline("train", "--overfit-batch", "translation", f"data.train={path}", *sizes)
    assert found.code == 0
    assert "can overfit" in found.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translation"], "data.train is missing"),
        (["translation", "data.train=missing.tsv"], "missing.tsv"),
        (["translatoin"], "did you mean 'translation'"),
        (["translation", "data.trian=x"], "did you mean 'data.train'"),
        ([], "name a recipe, or a run to resume"),
        (["--show-config"], "give a recipe: sightline train --list lists them"),
        (["translation", "data.train=x.tsv", "--resume", "--out", "nowhere"], "holds no run to resume"),
    ],
)
def test_train_reports_errors_in_one_line(sightline, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    found = sightline("train", *arguments)
    assert found.code == 2
    assert message in found.err
    assert "Traceback" not in found.err
