"""What configs refuse, and how they say it."""

import dataclasses
import json

import pytest

from sightline.config import from_mapping, to_mapping
from sightline.errors import SettingsError
from sightline.model import BertConfig, BlockConfig, GPTConfig, TransformerConfig
from sightline.model.config import Rope

ROPE = {"positions": "rope", "rope_factor": 8.0}
LONG = {**ROPE, "rope_original_max_length": 64}
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
    ({"d_model": 10, "n_heads": 4}, r"d_model 10 is not a multiple of n_heads 4: change one, or set d_head"),
    ({"d_head": 0}, r"d_head must be between 1 and 65,536, not 0"),
    ({"d_head": 65_537}, r"d_head must be between 1 and 65,536, not 65537"),
    ({"positions": "rope", "d_head": 3}, r"rotary positions need an even head width, not 3"),
    ({"norm": "rms", "norm_bias": True}, r"rms norms have no bias: leave norm_bias out"),
    ({"rope_factor": 0.5}, r"rope_factor must be between 1 and 1,000,000, not 0.5"),
    ({"rope_factor": 8.0}, r"rope_factor 8 has no effect: set rope_scaling too"),
    ({"rope_original_max_length": 0}, r"rope_original_max_length must be between 1 and 16,777,216, not 0"),
    ({"rope_beta_fast": 0.0}, r"rope_beta_fast must be between 0.001 and 1,000,000, not 0.0"),
    ({"rope_attention_factor": -1.0}, r"rope_attention_factor must be between 0.001 and 1,000,000, not -1.0"),
    (
        {"rope_scaling": "linear", "positions": "learned", "max_length": 9},
        r"rope_scaling linear needs positions rope, not learned",
    ),
    ({**ROPE, "rope_scaling": "llama3"}, r"rope_scaling llama3 needs rope_original_max_length"),
    ({**ROPE, "rope_scaling": "yarn"}, r"rope_scaling yarn needs rope_original_max_length"),
    ({**LONG, "rope_scaling": "yarn", "rope_theta": 1.0}, r"rope_scaling yarn needs a rope_theta above 1"),
    (
        {**LONG, "rope_scaling": "llama3", "rope_low_freq_factor": 4.0},
        r"rope_low_freq_factor 4 must be below rope_high_freq_factor 4",
    ),
    (
        {**LONG, "rope_scaling": "yarn", "rope_beta_fast": 1.0, "rope_beta_slow": 32.0},
        r"rope_beta_slow 32 must be below rope_beta_fast 1",
    ),
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
def test_head_width_is_a_share_of_the_model_width(d_model, n_heads, expected):
    """d_model / h (spec 1.5)."""
    assert BlockConfig(vocab_size=2, d_model=d_model, n_heads=n_heads).head_width == expected


def test_head_width_is_d_head_where_it_is_set():
    """Then d_model need not be a multiple of the heads."""
    assert BlockConfig(vocab_size=2, d_model=10, n_heads=4, d_head=6).head_width == 6


def test_head_width_follows_a_changed_model_width():
    """What was left open stays open."""
    config = BlockConfig(vocab_size=2, d_model=8, n_heads=2)
    assert dataclasses.replace(config, d_model=32).head_width == 16


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("setting", "expected"), [(None, None), (False, False), (True, True)])
def test_bias_setting_that_is_none_is_that_of_all(bias, setting, expected):
    """One switch for all biases, and one for each kind."""
    config = BlockConfig(vocab_size=2, bias=bias, qkv_bias=setting)
    assert config.resolve_bias(config.qkv_bias) is (bias if expected is None else expected)


def test_rope_has_every_setting_that_begins_with_its_name():
    """A setting that were forgotten there would have no effect, and two models would share one table."""
    names = {field.name for field in dataclasses.fields(BlockConfig) if field.name.startswith("rope_")}
    values = {"rope_theta": 99.0, "rope_scaling": "yarn", "rope_original_max_length": 64, "rope_truncate": False}
    values |= {name: float(number) for number, name in enumerate(sorted(names - set(values), reverse=True), 2)}
    rope = BlockConfig(vocab_size=2, positions="rope", d_head=6, **values).rope
    assert dataclasses.asdict(rope) == {"d_head": 6, **{name.removeprefix("rope_"): values[name] for name in names}}


def test_config_of_every_block_setting_survives_json():
    """Settings are flat and plain, as config.json and recipes hold them."""
    config = GPTConfig(
        vocab_size=20, d_model=10, n_heads=4, d_head=6, bias=False, qkv_bias=True, norm_bias=False, qk_norm=True,
        positions="rope", rope_scaling="yarn", rope_factor=8.0, rope_original_max_length=64, rope_attention_factor=0.5,
    )  # fmt: skip
    assert from_mapping(GPTConfig, json.loads(json.dumps(to_mapping(config)))) == config


@pytest.mark.parametrize("kind", [TransformerConfig, BertConfig, GPTConfig])
def test_config_written_before_a_setting_existed_means_the_same(kind):
    """Folders of earlier versions lack the newer settings: their defaults must be what the models did then."""
    config = kind(vocab_size=20)
    newer = {"d_head", "qkv_bias", "attention_output_bias", "feed_forward_bias", "norm_bias", "qk_norm"}
    newer |= {name for name in to_mapping(config) if name.startswith("rope_") and name != "rope_theta"}
    old = {name: value for name, value in to_mapping(config).items() if name not in newer}
    assert from_mapping(kind, old) == config
    assert (config.head_width, config.rope) == (64, Rope(d_head=64))
