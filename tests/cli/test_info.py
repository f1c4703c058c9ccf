"""`sightline info`: for people, for pipes, for programs."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.tiny import one_direction_bundle
from sightline.bundle import Bundle, TaskConfig, load, save
from sightline.bundle.training_facts import TrainingFacts
from sightline.cli.main import main
from sightline.engine.native.compiler import Loaded
from sightline.tasks import TASKS


@pytest.fixture
def facts(model_folder, capsys):
    assert main(["info", str(model_folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_tells_architecture_and_sizes(facts):
    assert facts["architecture"] == "gpt"
    assert facts["model"]["d_model"] == 8


def test_json_counts_every_parameter_once(facts, model_folder):
    counts = facts["parameters"]
    assert counts.pop("all") == sum(counts.values()) == sum(p.numel() for p in load(model_folder).model.parameters())


def test_json_tells_the_vocabulary_and_its_special_tokens(facts):
    assert facts["vocabulary"]["special_tokens"] == {"pad": "<pad>", "start": "<s>", "end": "</s>"}


def test_json_tells_files_and_their_sizes(facts, model_folder):
    assert facts["files"] == {path.name: path.stat().st_size for path in model_folder.iterdir()}


def test_json_tells_decoding_settings_and_versions(facts):
    assert facts["generation"]["beam_size"] == 1
    assert facts["versions"].keys() == {"folder", "sightline", "torch"}


def test_pipe_gets_plain_lines(model_folder, capsys):
    assert main(["info", str(model_folder)]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    assert "architecture: gpt\n" in output
    assert "vocabulary special_tokens: pad <pad>, start <s>, end </s>\n" in output
    assert "\x1b" not in output


def test_terminal_gets_a_table(model_folder, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["info", str(model_folder)]) == 0
    assert "architecture" in capsys.readouterr().out


def test_model_without_tokenizer_is_described_too(model_folder, tmp_path, capsys):
    save(Bundle(load(model_folder).model), tmp_path / "bare")
    assert main(["info", str(tmp_path / "bare")]) == 0
    assert "vocabulary: none\n" in capsys.readouterr().out


def test_absent_folder_ends_with_2_and_one_line(tmp_path, capsys):
    assert main(["info", str(tmp_path / "none")]) == 2
    assert capsys.readouterr() == ("", f"sightline: {tmp_path / 'none'}: no such model folder\n")


@pytest.fixture
def known_folder(tmp_path):
    """A translator that tells what it was trained on."""
    facts = TrainingFacts(("train.en", "train.de"), 29_000, 1_014, {"bleu": 38.25, "chrf": 64.0}, step=4_000)
    save(replace(one_direction_bundle(), training=facts), tmp_path / "known")
    return tmp_path / "known"


def test_it_begins_with_what_the_model_does_its_scores_and_its_data(known_folder, capsys):
    assert main(["info", str(known_folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:7] == [
        "does: translates English to German",
        "scores bleu: 38.25",
        "scores chrf: 64.0",
        "trained_on files: train.en, train.de",
        "trained_on n_examples: 29,000",
        "trained_on n_validation: 1,014",
        "trained_on step: 4,000",
    ]
    assert "architecture: transformer" in lines


def test_json_gains_what_the_model_does(known_folder, capsys):
    assert main(["info", str(known_folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["does"], found["scores"]["bleu"]) == ("translates English to German", 38.25)
    assert found["trained_on"]["files"] == ["train.en", "train.de"]


def test_a_folder_without_facts_tells_what_it_can(facts):
    assert facts["does"] == "continues prompts"
    assert not {"scores", "trained_on", "confidence"} & facts.keys()


@pytest.mark.parametrize(
    ("task_config", "words"),
    [
        (TaskConfig("translation"), "translates from one language to another"),
        (TaskConfig("translation", languages=("de", "fr", "xx")), "translates into German, French and xx"),
        (TaskConfig("classification", labels=("bad", "good")), "classifies texts into 2 classes: bad, good"),
        (
            TaskConfig("classification", labels=tuple(map(str, range(30))), per_word=True),
            f"classifies the words of a sentence into 30 classes: {', '.join(map(str, range(20)))}, …",
        ),
        (TaskConfig("chat"), "replies to conversations"),
        (TaskConfig("masked-language-model"), "fills masks"),
    ],
)
def test_what_a_model_does_is_said_in_words(task_config, words):
    assert TASKS[task_config.task].describe(task_config) == words


def test_engines_are_listed(capsys):
    assert main(["info", "--engines", "--json"]) == 0
    engines = json.loads(capsys.readouterr().out)
    assert engines["torch"]["available"]
    native = engines["native"]
    if native["available"]:
        assert native["used"] in native["instruction_sets"]
        assert native["instruction_sets"][-1] == "plain"
        assert Path(native["library"]).exists()
    else:
        assert native["reason"]


def test_engine_that_cannot_be_used_says_why(capsys, monkeypatch):
    nothing = Loaded(None, None, "no C compiler was found")
    monkeypatch.setattr("sightline.engine.native.compiler.load_library", lambda: nothing)
    assert main(["info", "--engines"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"native available: no", "native-int8 available: no"} <= set(lines)
    assert "native reason: no C compiler was found" in lines


@pytest.mark.parametrize("arguments", [[], ["--engines", "folder"]])
def test_either_a_model_or_the_engines(arguments, capsys):
    assert main(["info", *arguments]) == 2
    assert "give either a MODEL or --engines" in capsys.readouterr().err
