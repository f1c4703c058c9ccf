"""Two vocabularies: each side keeps its own tokenizer."""

import pytest

from sightline.bundle import Bundle, load, save
from sightline.data.tokenizers import train_bpe
from sightline.errors import ModelFileError

from .tiny import TOKENIZER, tiny_model

TARGETS = train_bpe(["winzige Modelle"] * 3, vocab_size=265)


def test_target_tokenizer_survives_a_round_trip(tmp_path):
    model = tiny_model("transformer", target_vocab_size=TARGETS.vocab_size, tie_embeddings=False)
    save(Bundle(model, TOKENIZER, target_tokenizer=TARGETS), tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.tokenizer.to_json() == TOKENIZER.to_json()
    assert loaded.target_tokenizer.to_json() == TARGETS.to_json()
    assert loaded.target_tokenizer.end_id not in loaded.target_tokenizer.encode("</s>")


def test_missing_target_tokenizer_is_refused(tmp_path):
    model = tiny_model("transformer", target_vocab_size=TARGETS.vocab_size, tie_embeddings=False)
    save(Bundle(model, TOKENIZER, target_tokenizer=TARGETS), tmp_path / "model")
    (tmp_path / "model/target_tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match=r"target_tokenizer\.json: is missing, although config\.json lists"):
        load(tmp_path / "model")


def test_target_tokenizer_must_fit(tmp_path):
    model = tiny_model("transformer", target_vocab_size=3_000, tie_embeddings=False)
    with pytest.raises(ModelFileError, match=r"target_tokenizer\.json: .* does not fit the model's target_vocab_size"):
        save(Bundle(model, TOKENIZER, target_tokenizer=TARGETS), tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"target_tokenizer\.json: was not written: it is not expected"):
        save(Bundle(tiny_model("transformer"), TOKENIZER, target_tokenizer=TARGETS), tmp_path / "model")
