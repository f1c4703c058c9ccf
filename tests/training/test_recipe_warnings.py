"""Settings that cannot work are warned about, and those that can are not."""

from dataclasses import replace

import pytest
import torch

from sightline.model import registry
from sightline.model.registry import PRESETS, preset, read_config
from sightline.training import recipe_warnings as module
from sightline.training.recipe_warnings import DataFacts, count_parameters, recipe_warnings
from sightline.training.settings import TrainingSettings

from .small import generators_now
from .toy import FAMILIES, tiny_model

SANE = DataFacts(
    n_examples=200_000, n_tokens=6_000_000, longest=200, batches_per_epoch=1500, total_steps=30_000, vocab_size=8000
)
SMALL = TrainingSettings(
    optimizer="adamw", schedule="cosine", learning_rate=0.003, warmup_steps=1500, max_steps=30_000, patience=5
)
MODEL = preset("transformer-tiny", vocab_size=8000)


def warnings_for(training=SMALL, model=MODEL, facts=SANE, **changes) -> list[str]:
    return recipe_warnings(training, model, facts=replace(facts, **changes))


def only(warnings: list[str], text: str) -> None:
    assert len(warnings) == 1, warnings
    assert text in warnings[0]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_with_the_papers_settings_give_no_warning(name):
    """Trained on what they were made for: some hundred million tokens, 100,000 updates."""
    smoothing = 0.0 if PRESETS[name][0] == "gpt" else 0.1
    facts = DataFacts(
        n_examples=4_500_000, n_tokens=250_000_000, longest=512, batches_per_epoch=65_000, total_steps=100_000,
        vocab_size=37_000,
    )  # fmt: skip
    for training in (
        TrainingSettings(max_steps=100_000, label_smoothing=smoothing),
        TrainingSettings(max_steps=100_000, label_smoothing=smoothing, patience=10, gradient_accumulation=8),
        replace(SMALL, max_steps=100_000, learning_rate=5e-4, label_smoothing=smoothing),
    ):
        assert recipe_warnings(training, preset(name, vocab_size=37_000), facts=facts) == []


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("width", [64, 128, 256])
def test_small_models_on_small_corpora_give_no_warning(optimizer, width):
    training = replace(SMALL, optimizer=optimizer, learning_rate=0.003 * 128 / width, warmup_steps=100, max_steps=2000)
    model = preset("transformer-tiny", vocab_size=2000, d_model=width)
    facts = DataFacts(
        n_examples=10_000, n_tokens=150_000, longest=60, batches_per_epoch=40, total_steps=2000, vocab_size=2000
    )
    assert recipe_warnings(replace(training, validate_every=250), model, facts=facts) == []


def test_run_without_an_end_is_noticed():
    endless = replace(SMALL, schedule="constant", max_steps=None, patience=None)
    only(warnings_for(endless, total_steps=None), "this run has no limit: set max_steps")
    assert warnings_for(replace(endless, max_minutes=3.0), total_steps=None) == []


def test_hundreds_of_epochs_are_noticed():
    only(warnings_for(batches_per_epoch=10), "30,000 updates are 3,000 epochs over only 200,000 examples")


def test_accumulated_batches_count_for_epochs():
    only(warnings_for(replace(SMALL, gradient_accumulation=20)), "400 epochs")


def test_warmup_longer_than_the_run_is_noticed():
    noam = TrainingSettings(max_steps=1000, validate_every=100)
    only(
        warnings_for(noam, total_steps=1000), "warmup_steps (4,000) takes up more than half of the run (1,000 updates)"
    )
    assert "about a twentieth, 50" in warnings_for(noam, total_steps=1000)[0]


@pytest.mark.parametrize("family", ["transformer", "bert"])
def test_deep_post_norm_without_warmup_is_noticed(family):
    abrupt = replace(SMALL, warmup_steps=0, learning_rate=1e-3)
    layers = {"n_decoder_layers": 8} if family == "transformer" else {"n_layers": 8}
    model = read_config(family, {"vocab_size": 8000, "d_model": 128, "d_ff": 256, "n_heads": 4, **layers})
    only(warnings_for(abrupt, model), "8 post-norm layers hardly train with a warmup of only 0 updates")
    assert warnings_for(abrupt, replace(model, pre_norm=True)) == []
    assert warnings_for(replace(abrupt, learning_rate=2e-5), model) == []


def test_rate_far_too_high_is_noticed():
    only(warnings_for(replace(SMALL, learning_rate=0.5)), "the peak learning rate is 0.5, far too high for d_model 128")
    noam = TrainingSettings(warmup_steps=10, max_steps=30_000, label_smoothing=0.0)
    only(warnings_for(noam), "raise warmup_steps")


def test_rate_far_too_low_is_noticed():
    only(
        warnings_for(replace(SMALL, learning_rate=1e-8)),
        "the peak learning rate is 1e-08: the weights will hardly change",
    )


def test_validation_beyond_the_end_is_noticed():
    late = replace(SMALL, max_steps=5000, validate_every=6000, patience=None)
    only(warnings_for(late, total_steps=5000), "validate_every (6,000) is longer than the run (5,000 updates)")


@pytest.mark.parametrize(("patience", "noticed"), [(8, False), (9, True)])
def test_patience_that_cannot_run_out_is_noticed(patience, noticed):
    """The tenth validation is the last thing the run does: to stop there saves nothing."""
    settings = replace(SMALL, max_steps=5000, validate_every=500, patience=patience, warmup_steps=100)
    warnings = warnings_for(settings, total_steps=5000)
    assert bool(warnings) == noticed
    if noticed:
        only(warnings, "patience (9) can never stop this run early: there are only 10 validations in 5,000 updates")


def test_tiny_batches_are_noticed():
    only(
        warnings_for(replace(SMALL, batch_tokens=64)), "an update has only 2.1 examples on average, of about 30 tokens"
    )
    assert warnings_for(replace(SMALL, batch_tokens=64, gradient_accumulation=8)) == []


def test_long_documents_count_as_the_blocks_they_are_read_in():
    model = preset("gpt2-small", vocab_size=8000, d_model=96, n_layers=2, max_length=1024)
    assert warnings_for(replace(SMALL, label_smoothing=0.0), model, n_examples=1) == []


def test_vocabulary_of_rare_tokens_is_noticed():
    only(
        warnings_for(vocab_size=1_000_000),
        "a vocabulary of 1,000,000 is too large for 6,000,000 tokens of data: each occurs 6.0",
    )
    small = preset("transformer-tiny", vocab_size=300, d_model=16)
    assert warnings_for(SMALL, small, n_tokens=2900, n_examples=100, vocab_size=300) == []


def test_model_far_larger_than_its_data_is_noticed():
    base = preset("paper-base", vocab_size=8000)
    only(warnings_for(SMALL, base, n_tokens=800_000, n_examples=29_000), "parameters for 800,000 tokens of data")


def test_r_drop_without_dropout_is_noticed():
    model = preset("transformer-tiny", vocab_size=1000, dropout=0.0)
    only(warnings_for(replace(SMALL, r_drop=3.0), model), "r_drop (3) runs every batch twice")
    assert warnings_for(replace(SMALL, r_drop=3.0), replace(model, dropout=0.1)) == []


def test_smoothing_is_noticed_on_language_models_alone():
    model = preset("gpt2-small", vocab_size=8000, d_model=96, n_layers=2)
    only(warnings_for(SMALL, model), "label_smoothing (0.1) raises the perplexity of a language model")
    assert warnings_for(replace(SMALL, label_smoothing=0.0), model) == []


def test_more_threads_than_cores_are_noticed(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    only(warnings_for(replace(SMALL, threads=8)), "threads (8) is more than this machine's cores (2)")
    assert warnings_for(replace(SMALL, threads=2)) == []


@pytest.mark.parametrize("able", [True, False])
def test_bfloat16_without_hardware_is_noticed(monkeypatch, able):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able, "amx_bf16": False})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bool(warnings_for(replace(SMALL, precision="bfloat16"))) is not able


def test_all_problems_are_reported():
    assert len(warnings_for(replace(SMALL, learning_rate=0.5, threads=1024, batch_tokens=10))) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_counted_without_making_or_drawing_any(family):
    model = tiny_model(family)
    before = generators_now()
    assert count_parameters(model.config) == sum(parameter.numel() for parameter in model.parameters())
    assert generators_now() == before


def test_every_architecture_can_be_checked():
    for name in registry.FAMILIES:
        assert isinstance(recipe_warnings(SMALL, read_config(name, {"vocab_size": 100}), facts=SANE), list)
