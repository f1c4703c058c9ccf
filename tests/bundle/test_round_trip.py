"""Saving and loading preserves a bundle."""

import json
import stat
from datetime import date
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sightline import __version__
from sightline.bundle import Bundle, build_model_card, load, load_tokenizer, save
from sightline.decoding import DecodingSettings
from sightline.errors import ModelFileError, SightlineError

from .tiny import tiny_model

CASES = [
    ("transformer", {}),
    ("transformer", {"tie_embeddings": False}),
    ("transformer", {"target_vocab_size": 300, "tie_embeddings": False}),
    ("bert", {}),
    ("bert", {"tie_embeddings": False, "heads": ["sequence_classification", "token_classification"], "n_classes": 3}),
    ("gpt", {}),
    ("gpt", {"tie_embeddings": False, "positions": "rope", "norm": "rms", "activation": "swiglu", "n_kv_heads": 1}),
]
ALL = pytest.mark.parametrize(("architecture", "settings"), CASES)


def outputs(model, architecture):
    ids = torch.arange(12).reshape(2, 6)
    with torch.inference_mode():
        return model(ids, ids) if architecture == "transformer" else model(ids)


@ALL
def test_loaded_model_computes_the_same_bits(architecture, settings, tmp_path):
    model = tiny_model(architecture, **settings).eval()
    save(Bundle(model), tmp_path / "model")
    loaded = load(tmp_path / "model").model
    assert torch.equal(outputs(loaded, architecture), outputs(model, architecture))
    assert loaded.config == model.config


@ALL
def test_loaded_model_can_be_trained(architecture, settings, tmp_path):
    save(Bundle(tiny_model(architecture, **settings)), tmp_path / "model")
    model = load(tmp_path / "model").model
    parameters = dict(model.named_parameters())
    assert parameters.keys() == dict(tiny_model(architecture, **settings).named_parameters()).keys()
    assert all(p.requires_grad and p.is_leaf and p.dtype == torch.float32 for p in parameters.values())
    assert len({p.untyped_storage().data_ptr() for p in parameters.values()}) == len(parameters)
    with torch.no_grad():
        for parameter in parameters.values():
            parameter += 1


def test_tied_weights_are_one_after_loading(folder):
    model = load(folder).model
    assert model.output.weight is model.embedding.tokens.weight


def test_bundle_survives_a_round_trip(tmp_path, tokenizer):
    bundle = Bundle(
        tiny_model(), tokenizer, DecodingSettings(beam_size=4, bad_words=((1, 2), (3,)), stop=("é",)), "# Card\n"
    )
    save(bundle, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.generation, loaded.card, loaded.version) == (bundle.generation, bundle.card, bundle.version)
    assert loaded.tokenizer.to_json() == tokenizer.to_json()


def test_special_tokens_typed_by_a_user_stay_text_in_a_loaded_folder(folder):
    tokenizer = load(folder).tokenizer
    assert tokenizer.end_id not in tokenizer.encode("</s>")


def test_roles_are_read_from_the_config(folder):
    config = json.loads((folder / "config.json").read_text())
    config["special_tokens"] = {"pad": "</s>"}
    (folder / "config.json").write_text(json.dumps(config))
    assert load(folder).tokenizer.pad_id == 2


def test_model_without_tokenizer_needs_none(tmp_path):
    save(Bundle(tiny_model()), tmp_path / "model")
    assert not (tmp_path / "model/tokenizer.json").exists()
    assert load(tmp_path / "model").tokenizer is None


@pytest.mark.parametrize("name", ["generation.json", "README.md"])
def test_files_with_defaults_may_be_absent(folder, name):
    (folder / name).unlink()
    assert load(folder).generation == DecodingSettings()


@pytest.mark.parametrize(
    "text", ["", '<p align="center">A model</p>', "GGUF is another format", "x" * 3_000_000], ids=len
)
def test_any_card_lets_the_model_load(folder, text):
    """A README is for readers: it often begins with HTML, and the weights do not need it."""
    (folder / "README.md").write_text(text)
    assert text.startswith(load(folder).card)


def test_double_precision_model_loads_after_saving(tmp_path):
    model = tiny_model().double()
    save(Bundle(model), tmp_path / "model")
    loaded = dict(load(tmp_path / "model").model.named_parameters())
    assert all(torch.equal(loaded[name], p.float()) for name, p in model.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_converted(folder, dtype):
    path = folder / "model.safetensors"
    halves = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
    save_file(halves, path)
    model = load(folder).model
    assert all(torch.equal(p, halves[name].float()) for name, p in model.named_parameters())


def test_our_reader_agrees_with_the_library(folder):
    expected = load_file(folder / "model.safetensors")
    assert all(torch.equal(p, expected[name]) for name, p in load(folder).model.named_parameters())


def test_format_version_is_in_every_file(folder):
    assert json.loads((folder / "config.json").read_text())["format"] == 2
    assert json.loads((folder / "generation.json").read_text())["format"] == 2
    assert json.loads((folder / "tokenizer.json").read_text())["version"] == "1.0"
    assert b'"sightline_format":"2"' in (folder / "model.safetensors").read_bytes()


def test_files_are_as_readable_as_the_umask_allows(folder):
    assert len({stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}) == 1


def test_card_has_facts_and_no_paths(bundle, tmp_path):
    card = build_model_card(bundle.model, bundle.tokenizer, title="Tiny", created=date(2026, 1, 2))
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    for fact in (
        "# Tiny",
        "decoder-only",
        f"{parameters:,} parameters",
        "| d_model | 8 |",
        "on 2026-01-02",
        __version__,
    ):
        assert fact in card
    assert str(tmp_path) not in card
    assert str(Path.cwd()) not in card


def test_card_has_the_sections_it_is_given(bundle):
    card = build_model_card(bundle.model, sections={"Data": "seven lines\n", "Scores": "BLEU 30"})
    assert card.endswith("for details.\n\n## Data\n\nseven lines\n\n## Scores\n\nBLEU 30\n")


def test_link_to_a_folder_whose_save_was_killed_still_loads(folder, tmp_path):
    """Between the two renames of a save the old model is next to its folder, not next to the symlink."""
    (tmp_path / "latest").symlink_to(folder)
    folder.rename(folder.with_name(f"{folder.name}.tmp-old"))
    assert load(tmp_path / "latest").tokenizer is not None


def test_saving_through_a_symlink_replaces_its_target(bundle, folder, tmp_path):
    (tmp_path / "latest").symlink_to(folder)
    save(bundle, tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    load(tmp_path / "latest")


def test_non_finite_weights_are_not_saved(bundle, tmp_path):
    bundle.model.embedding.tokens.weight.data[0, 0] = torch.nan
    with pytest.raises(SightlineError, match=r"embedding\.tokens\.weight holds NaN"):
        save(bundle, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_tokenizer_that_does_not_fit_is_not_saved(tokenizer, tmp_path):
    with pytest.raises(ModelFileError, match="does not fit the model's vocab_size of 40"):
        save(Bundle(tiny_model(vocab_size=40), tokenizer), tmp_path / "model")


def test_folder_with_anything_else_in_it_is_not_replaced(bundle, folder):
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelFileError, match=r"not part of a model \(thesis\.tex\)"):
        save(bundle, folder)
    assert (folder / "thesis.tex").exists()


def test_file_is_not_replaced_by_a_folder(bundle, tmp_path):
    (tmp_path / "model").write_text("x")
    with pytest.raises(ModelFileError, match="choose another name"):
        save(bundle, tmp_path / "model")


def test_tokenizer_file_can_be_loaded_alone(folder, tmp_path):
    assert load_tokenizer(folder / "tokenizer.json").end_id == 2
    with pytest.raises(ModelFileError, match="is missing"):
        load_tokenizer(tmp_path / "none.json")
