"""Architectures and presets by name, and how many parameters they have."""

import dataclasses
import json

import pytest
import torch

from sightline.config import from_mapping, to_mapping
from sightline.errors import SettingsError
from sightline.model import GPT, Bert, Transformer, build, preset
from sightline.model.registry import FAMILIES, PRESETS, family_of, read_config


def attention(d):
    """Four projections with biases."""
    return 4 * (d * d + d)


def feed_forward(d, d_ff):
    """Two linear maps with biases."""
    return (d * d_ff + d_ff) + (d_ff * d + d)


def norm(d):
    """Scale and shift."""
    return 2 * d


def paper(*, vocab, d, d_ff, n_layers):
    """One shared table; encoder layers of two sublayers, decoder layers of three (3.1 – 3.4)."""
    encoder = attention(d) + feed_forward(d, d_ff) + 2 * norm(d)
    decoder = 2 * attention(d) + feed_forward(d, d_ff) + 3 * norm(d)
    return vocab * d + n_layers * (encoder + decoder)


def bert(*, vocab, d, d_ff, n_layers):
    """Three tables and a norm; layers; pooler; word head with the tied projection's bias; next-sentence head."""
    embedding = (vocab + 512 + 2) * d + norm(d)
    layers = n_layers * (attention(d) + feed_forward(d, d_ff) + 2 * norm(d))
    pooler = d * d + d
    words = (d * d + d) + norm(d) + vocab
    next_sentence = 2 * d + 2
    return embedding + layers + pooler + words + next_sentence


def gpt2(*, vocab, d, d_ff, n_layers):
    """Two tables, layers, a final norm."""
    return (vocab + 1024) * d + n_layers * (attention(d) + feed_forward(d, d_ff) + 2 * norm(d)) + norm(d)


def llama(*, vocab, d, d_ff, n_layers, kv_share):
    """Table and projection apart, no biases, one head of keys and values to `kv_share` queries, a gate, bare norms."""
    layer = 2 * d * d + 2 * d * (d // kv_share) + 3 * d * d_ff + 2 * d
    return 2 * vocab * d + n_layers * layer + d


COUNTS = {
    "paper-base": (37_000, paper(vocab=37_000, d=512, d_ff=2048, n_layers=6), "63.1"),
    "paper-big": (37_000, paper(vocab=37_000, d=1024, d_ff=4096, n_layers=6), "214.2"),
    "transformer-tiny": (10_000, paper(vocab=10_000, d=128, d_ff=256, n_layers=4), None),
    "bert-base": (30_522, bert(vocab=30_522, d=768, d_ff=3072, n_layers=12), "110.1"),
    "bert-mini": (30_522, bert(vocab=30_522, d=256, d_ff=1024, n_layers=4), None),
    "gpt2-small": (50_257, gpt2(vocab=50_257, d=768, d_ff=3072, n_layers=12), "124.4"),
    "llama-small": (32_000, llama(vocab=32_000, d=512, d_ff=1408, n_layers=8, kv_share=4), None),
}


def count(config):
    """Parameters of a model that takes no memory."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_the_parameters_of_its_formula(name):
    """A weight too many or too few is found here."""
    vocab, expected, _ = COUNTS[name]
    assert count(preset(name, vocab_size=vocab)) == expected


@pytest.mark.parametrize(("name", "millions"), [(name, m) for name, (_, _, m) in COUNTS.items() if m])
def test_preset_has_the_published_size(name, millions):
    """In millions, with the publication's vocabulary (spec 3.5: 63.1 and 214)."""
    vocab, _, _ = COUNTS[name]
    assert f"{count(preset(name, vocab_size=vocab)) / 1e6:.1f}" == millions


def test_separate_target_vocabulary_adds_its_table():
    """Two tables instead of one, the output still tied to the second."""
    one = preset("transformer-tiny", vocab_size=1000)
    two = dataclasses.replace(one, target_vocab_size=1200)
    assert count(two) - count(one) == 1200 * 128


def test_untied_output_adds_a_projection():
    """The table once more."""
    tied = preset("transformer-tiny", vocab_size=1000)
    assert count(dataclasses.replace(tied, tie_embeddings=False)) - count(tied) == 1000 * 128


@pytest.mark.parametrize("name", PRESETS)
def test_preset_survives_being_written_and_read(name):
    """The config beside every result gives the same config back, through JSON too."""
    config = preset(name, vocab_size=100)
    written = json.loads(json.dumps(to_mapping(config)))
    assert from_mapping(type(config), written) == config
    assert read_config(family_of(config).name, written) == config


@pytest.mark.parametrize(
    ("name", "kind"),
    [("transformer-tiny", Transformer), ("bert-mini", Bert), ("gpt2-small", GPT), ("llama-small", GPT)],
)
def test_build_makes_the_model_its_config_describes(name, kind):
    """One function for all architectures."""
    config = preset(name, vocab_size=100)
    with torch.device("meta"):
        model = build(config)
    assert isinstance(model, kind)
    assert model.config == config


@pytest.mark.parametrize("name", FAMILIES)
def test_architecture_of_gives_the_name_back(name):
    """What is written beside the weights can be read."""
    assert family_of(read_config(name, {"vocab_size": 10})).name == name


def test_preset_takes_changes():
    """A well-known size, but for one thing."""
    assert preset("paper-base", vocab_size=100, dropout=0.2).dropout == 0.2


def test_preset_base_and_big_are_the_paper_s():
    """Table 3 of the paper (spec 3.5)."""
    base, big = (preset(name, vocab_size=100) for name in ("paper-base", "paper-big"))
    found = [(c.n_encoder_layers, c.n_decoder_layers, c.d_model, c.d_ff, c.n_heads, c.dropout) for c in (base, big)]
    assert found == [(6, 6, 512, 2048, 8, 0.1), (6, 6, 1024, 4096, 16, 0.3)]


def test_preset_unknown_names_the_nearest():
    """A typing error is answered with what was meant."""
    with pytest.raises(
        SettingsError, match=r"unknown preset 'papper-base' \(did you mean 'paper-base'\?\), not one of paper"
    ):
        preset("papper-base", vocab_size=100)


def test_preset_needs_a_vocabulary():
    """Its size is never guessed."""
    with pytest.raises(SettingsError, match="paper-base: vocab_size is missing"):
        preset("paper-base")


def test_preset_refuses_an_unknown_change_by_its_name():
    """Which preset, which setting, which was meant."""
    with pytest.raises(SettingsError, match=r"paper-base: unknown setting 'dropuot' \(did you mean 'dropout'\?\)"):
        preset("paper-base", vocab_size=100, dropuot=0.2)


def test_architecture_unknown_names_the_nearest():
    """And lists those there are."""
    with pytest.raises(
        SettingsError,
        match=r"model: unknown architecture 'brt' \(did you mean 'bert'\?\), not one of transformer, bert, gpt",
    ):
        read_config("brt", {"vocab_size": 10})
