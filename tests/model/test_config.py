"""What configs refuse, and how they say it."""

import dataclasses

import pytest

from sightline.errors import SettingsError
from sightline.model import BertConfig, BlockConfig, GPTConfig, TransformerConfig

REFUSED = [
    ({"vocab_size": 0}, r"vocab_size must be between 1 and 4,000,000, not 0"),
    ({"vocab_size": 4_000_001}, r"vocab_size must be between 1 and 4,000,000, not 4000001"),
    ({"d_model": 0}, r"d_model must be between 1 and 65,536, not 0"),
    ({"d_model": 65_537}, r"d_model must be between 1 and 65,536"),
    ({"n_heads": 0}, r"n_heads must be between 1 and 65,536, not 0"),
    ({"n_heads": -1}, r"n_heads must be between 1 and 65,536, not -1"),
    ({"d_ff": 0}, r"d_ff must be between 1 and 1,048,576, not 0"),
    ({"dropout": -0.1}, r"dropout must be between 0 and 0.99, not -0.1"),
    ({"dropout": 1.0}, r"dropout must be between 0 and 0.99, not 1.0"),
    ({"dropout": float("nan")}, r"dropout: nan is not a finite number"),
    ({"attention_dropout": 1.0}, r"attention_dropout must be between 0 and 0.99"),
    ({"norm_eps": 0.0}, r"norm_eps must be between 1e-20 and 1, not 0.0"),
    ({"rope_theta": 0.5}, r"rope_theta must be between 1 and .*, not 0.5"),
    ({"d_model": 10, "n_heads": 4}, r"d_model 10 is not a multiple of n_heads 4"),
    ({"n_heads": 8, "n_kv_heads": 3}, r"n_heads 8 is not a multiple of n_kv_heads 3"),
    ({"n_heads": 8, "n_kv_heads": 16}, r"n_heads 8 is not a multiple of n_kv_heads 16"),
    ({"n_heads": 8, "n_kv_heads": 0}, r"n_heads 8 is not a multiple of n_kv_heads 0"),
    ({"n_heads": 8, "n_kv_heads": -8}, r"n_heads 8 is not a multiple of n_kv_heads -8"),
    ({"positions": "rope", "d_model": 6, "n_heads": 2}, r"rotary positions need an even head width, not 3"),
    ({"positions": "sinusoidal", "d_model": 9, "n_heads": 3}, r"sinusoidal positions need an even d_model, not 9"),
    ({"positions": "sinusoidal_halves", "d_model": 9, "n_heads": 3}, r"sinusoidal positions need an even d_model"),
    ({"positions": "learned", "max_length": None}, r"learned positions need max_length"),
    ({"max_length": 0}, r"max_length must be between 1 and 16,777,216, not 0"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_block_config_refuses_what_cannot_be_built(settings, message):
    """With the value given and the range allowed."""
    with pytest.raises(SettingsError, match=message):
        BlockConfig(**{"vocab_size": 20, **settings})


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (TransformerConfig, {"n_encoder_layers": 0}, r"n_encoder_layers must be between 1 and 1,024, not 0"),
        (TransformerConfig, {"n_decoder_layers": 1025}, r"n_decoder_layers must be between 1 and 1,024, not 1025"),
        (TransformerConfig, {"target_vocab_size": -1}, r"target_vocab_size must be between 1 and 4,000,000, not -1"),
        (TransformerConfig, {"target_vocab_size": 0}, r"target_vocab_size must be between 1 and 4,000,000, not 0"),
        (GPTConfig, {"n_layers": 0}, r"n_layers must be between 1 and 1,024, not 0"),
        (BertConfig, {"n_layers": 0}, r"n_layers must be between 1 and 1,024, not 0"),
        (BertConfig, {"n_segments": -1}, r"n_segments must be between 0 and 1,024, not -1"),
        (BertConfig, {"n_classes": 0}, r"n_classes must be between 1 and 1,000,000, not 0"),
        (BertConfig, {"heads": ("mlm", "mlm")}, r"heads lists a head twice"),
    ],
)
def test_family_config_refuses_what_cannot_be_built(kind, settings, message):
    """The fields a family adds are checked like the others."""
    with pytest.raises(SettingsError, match=message):
        kind(vocab_size=20, **settings)


def test_config_lists_all_problems_at_once():
    """One round of correction, not three."""
    with pytest.raises(SettingsError, match=r"vocab_size .*; dropout .*; n_encoder_layers "):
        TransformerConfig(vocab_size=0, dropout=2.0, n_encoder_layers=0)


def test_config_is_frozen():
    """A model's description cannot drift from the model."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        BlockConfig(vocab_size=20).d_model = 4


@pytest.mark.parametrize(("d_model", "n_heads", "expected"), [(512, 8, 64), (8, 1, 8), (8, 8, 1)])
def test_d_head_is_the_width_of_one_head(d_model, n_heads, expected):
    """d_model / h (spec 1.5)."""
    assert BlockConfig(vocab_size=2, d_model=d_model, n_heads=n_heads).d_head == expected
