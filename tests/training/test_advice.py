"""Settings that cannot work are noticed, and those that can are left in peace."""

from dataclasses import replace

import pytest
import torch

from sightline.model.registry import ARCHITECTURES, PRESETS, preset, read_config
from sightline.training import advice as module
from sightline.training.advice import DataFacts, advice, count_parameters
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


def said(training=SMALL, model=MODEL, facts=SANE, **changes) -> list[str]:
    return advice(training, model, facts=replace(facts, **changes))


def only(warnings: list[str], text: str) -> None:
    assert len(warnings) == 1, warnings
    assert text in warnings[0]


@pytest.mark.parametrize("name", PRESETS)
def test_well_known_models_with_the_papers_settings_are_left_in_peace(name):
    """Trained on what they were made for: some hundred million tokens, 100,000 updates."""
    smoothing = 0.0 if PRESETS[name][0] == "gpt" else 0.1
    facts = DataFacts(
        n_examples=4_500_000, n_tokens=250_000_000, longest=512, batches_per_epoch=65_000, total_steps=100_000,
        vocab_size=37_000,
    )  # fmt: skip
    for training in (
        TrainingSettings(max_steps=100_000, label_smoothing=smoothing),
        TrainingSettings(max_steps=100_000, label_smoothing=smoothing, patience=10, accumulate=8),
        replace(SMALL, max_steps=100_000, learning_rate=5e-4, label_smoothing=smoothing),
    ):
        assert advice(training, preset(name, vocab_size=37_000), facts=facts) == []


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("width", [64, 128, 256])
def test_small_models_on_small_corpora_are_left_in_peace(optimizer, width):
    training = replace(SMALL, optimizer=optimizer, learning_rate=0.003 * 128 / width, warmup_steps=100, max_steps=2000)
    model = preset("transformer-tiny", vocab_size=2000, d_model=width)
    facts = DataFacts(
        n_examples=10_000, n_tokens=150_000, longest=60, batches_per_epoch=40, total_steps=2000, vocab_size=2000
    )
    assert advice(replace(training, validate_every=250), model, facts=facts) == []


def test_run_without_an_end_is_noticed():
    endless = replace(SMALL, schedule="constant", max_steps=None, patience=None)
    only(said(endless, total_steps=None), "nothing ends this run: set max_steps")
    assert said(replace(endless, max_minutes=3.0), total_steps=None) == []


def test_hundreds_of_passes_over_the_data_are_noticed():
    only(said(batches_per_epoch=10), "30,000 updates are 3,000 passes over the same 200,000 examples")


def test_accumulated_batches_count_as_passes():
    only(said(replace(SMALL, accumulate=20)), "400 passes")


def test_warm_up_longer_than_the_run_is_noticed():
    paper = TrainingSettings(max_steps=1000, validate_every=100)
    only(said(paper, total_steps=1000), "warmup_steps (4,000) takes up more than half of the run (1,000 updates)")
    assert "about a twentieth, 50" in said(paper, total_steps=1000)[0]


@pytest.mark.parametrize("family", ["transformer", "bert"])
def test_deep_post_norm_without_warm_up_is_noticed(family):
    abrupt = replace(SMALL, warmup_steps=0, learning_rate=1e-3)
    layers = {"n_decoder_layers": 8} if family == "transformer" else {"n_layers": 8}
    model = read_config(family, {"vocab_size": 8000, "d_model": 128, "d_ff": 256, "n_heads": 4, **layers})
    only(said(abrupt, model), "8 layers with norm_order post hardly learn with a warm-up of only 0 updates")
    assert said(abrupt, replace(model, norm_order="pre")) == []
    assert said(replace(abrupt, learning_rate=2e-5), model) == []


def test_rate_far_too_high_is_noticed():
    only(said(replace(SMALL, learning_rate=0.5)), "rises to 0.5, far too high for a model 128 wide")
    paper = TrainingSettings(warmup_steps=10, max_steps=30_000, label_smoothing=0.0)
    only(said(paper), "raise warmup_steps")


def test_rate_that_moves_nothing_is_noticed():
    only(said(replace(SMALL, learning_rate=1e-8)), "never gets above 1e-08")


def test_validation_beyond_the_end_is_noticed():
    late = replace(SMALL, max_steps=5000, validate_every=6000, patience=None)
    only(said(late, total_steps=5000), "validate_every (6,000) is beyond the end of the run (5,000 updates)")


@pytest.mark.parametrize(("patience", "noticed"), [(8, False), (9, True)])
def test_patience_that_cannot_run_out_is_noticed(patience, noticed):
    """The tenth validation is the last thing the run does: to stop there saves nothing."""
    settings = replace(SMALL, max_steps=5000, validate_every=500, patience=patience, warmup_steps=100)
    warnings = said(settings, total_steps=5000)
    assert bool(warnings) == noticed
    if noticed:
        only(warnings, "patience (9) can never end this run early: there are 10 validations in 5,000 updates")


def test_batches_of_next_to_nothing_are_noticed():
    only(said(replace(SMALL, batch_tokens=64)), "an update sees only 2.1 examples on average, of about 30 tokens each")
    assert said(replace(SMALL, batch_tokens=64, accumulate=8)) == []


def test_long_documents_count_as_the_blocks_they_are_read_in():
    model = preset("gpt2-small", vocab_size=8000, d_model=96, n_layers=2, max_length=1024)
    assert said(replace(SMALL, label_smoothing=0.0), model, n_examples=1) == []


def test_vocabulary_of_rare_tokens_is_noticed():
    only(
        said(vocab_size=1_000_000),
        "a vocabulary of 1,000,000 is too large for 6,000,000 tokens of data: each is seen 6.0",
    )
    small = preset("transformer-tiny", vocab_size=300, d_model=16)
    assert said(SMALL, small, n_tokens=2900, n_examples=100, vocab_size=300) == []


def test_model_far_larger_than_its_data_is_noticed():
    base = preset("paper-base", vocab_size=8000)
    only(said(SMALL, base, n_tokens=800_000, n_examples=29_000), "parameters for 800,000 tokens of data")


def test_agreement_without_dropout_is_noticed():
    model = preset("transformer-tiny", vocab_size=1000, dropout=0.0)
    only(said(replace(SMALL, agreement=3.0), model), "agreement (3) reads everything twice")
    assert said(replace(SMALL, agreement=3.0), replace(model, dropout=0.1)) == []


def test_smoothing_is_noticed_on_language_models_alone():
    model = preset("gpt2-small", vocab_size=8000, d_model=96, n_layers=2)
    only(said(SMALL, model), "label_smoothing (0.1) makes a language model unsure on purpose")
    assert said(replace(SMALL, label_smoothing=0.0), model) == []


def test_more_threads_than_cores_are_noticed(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    only(said(replace(SMALL, threads=8)), "threads (8) are more than this machine's cores (2)")
    assert said(replace(SMALL, threads=2)) == []


@pytest.mark.parametrize("able", [True, False])
def test_bfloat16_without_hardware_is_noticed(monkeypatch, able):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able, "amx_bf16": False})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bool(said(replace(SMALL, precision="bfloat16"))) is not able


def test_several_problems_are_all_said():
    assert len(said(replace(SMALL, learning_rate=0.5, threads=1024, batch_tokens=10))) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_counted_without_making_or_drawing_any(family):
    model = tiny_model(family)
    before = generators_now()
    assert count_parameters(model.config) == sum(parameter.numel() for parameter in model.parameters())
    assert generators_now() == before


def test_every_architecture_can_be_advised():
    for name in ARCHITECTURES:
        assert isinstance(advice(SMALL, read_config(name, {"vocab_size": 100}), facts=SANE), list)
