"""`sightline train` as a person types it."""

import json
import tomllib

import pytest

from run.small import TINY, write_corpus

ARGUMENTS = [f"{name}={value}" for name, value in {**TINY, "model.n_layers": 1}.items()]


def test_train_goes_from_a_file_to_a_model(sightline, tmp_path):
    path = write_corpus(tmp_path, "classification")
    found = sightline("train", "classification", f"data.train={path}", *ARGUMENTS, "--out", str(tmp_path / "run"))
    assert (found.code, found.out) == (0, f"{tmp_path / 'run'}\n")
    assert "parameters, about" in found.err
    assert f'next: sightline classify {tmp_path / "run"} "…"' in found.err
    asked = sightline("classify", str(tmp_path / "run"), "red cat", "--json")
    assert json.loads(asked.out)["label"] in ("red", "green", "blue")


def test_train_resumes_without_naming_the_recipe(sightline, tmp_path):
    path = write_corpus(tmp_path, "classification")
    sightline("train", "classification", f"data.train={path}", *ARGUMENTS, "--out", str(tmp_path / "run"))
    found = sightline("train", "--resume", "--out", str(tmp_path / "run"))
    assert found.code == 0
    assert "going on from" in found.err
    assert "restored: weights, optimiser, random generators" in found.err


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
def test_train_explains_a_recipe_as_a_file_that_could_be_used(sightline, recipe):
    found = sightline("train", "--explain", recipe)
    assert found.code == 0
    sections = tomllib.loads(found.out)
    assert sections["training"]["seed"] == 1
    assert all("#" in line for line in found.out.splitlines() if " = " in line and not line.startswith("task"))


def test_train_asks_whether_it_learns(sightline, tmp_path):
    path = write_corpus(tmp_path, "translation")
    sizes = ["model.d_model=32", "model.n_heads=2", "model.d_ff=64", "tokenizer.vocab_size=300"]
    found = sightline("train", "--check", "translation", f"data.train={path}", *sizes)
    assert found.code == 0
    assert "learn" in found.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translation"], "data.train is missing"),
        (["translation", "data.train=missing.tsv"], "missing.tsv"),
        (["translatoin"], "did you mean 'translation'"),
        (["translation", "data.trian=x"], "did you mean 'data.train'"),
        ([], "say which recipe to follow"),
        (["--explain"], "name a recipe"),
        (["translation", "data.train=x.tsv", "--resume", "--out", "nowhere"], "holds no run to go on with"),
    ],
)
def test_train_says_in_a_line_what_is_wrong(sightline, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    found = sightline("train", *arguments)
    assert found.code == 2
    assert message in found.err
    assert "Traceback" not in found.err
