"""`sightline info`: for people, for pipes, for programs."""

import json
import sys

import pytest

from sightline.bundle import Bundle, load, save
from sightline.cli.main import main


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
