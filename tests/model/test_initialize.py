"""Weight initialization."""

import pytest
import torch
from torch import nn

from sightline.model import GPT, Bert, BertConfig, GPTConfig, Transformer, TransformerConfig
from sightline.model.context import AttentionContext
from sightline.model.embedding import Embedding
from sightline.model.packing import Layout

SIZES = {"vocab_size": 200, "d_model": 64, "n_heads": 4, "d_ff": 128}


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SIZES, n_encoder_layers=2, n_decoder_layers=2))


@pytest.fixture(scope="module")
def gpt():
    torch.manual_seed(0)
    return GPT(GPTConfig(**SIZES, n_layers=8))


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(0)
    return Bert(BertConfig(**SIZES, n_layers=2))


def about(weight, std):
    """Whether a weight's deviation is what it should be: five standard errors, and no less than 2 %."""
    return abs(weight.std().item() / std - 1) < max(0.02, 5 / (2 * weight.numel()) ** 0.5)


def test_transformer_linear_maps_begin_by_glorot(transformer):
    """Variance 2 / (inputs + outputs), so that values and gradients keep their size."""
    linears = [m for name, m in transformer.named_modules() if isinstance(m, nn.Linear) and name != "output"]
    assert all(about(m.weight, (2 / (m.in_features + m.out_features)) ** 0.5) for m in linears)


def test_transformer_embedding_begins_at_unit_variance_once_scaled(transformer):
    """Times √d_model it meets position codes of the same size (spec 2.1)."""
    assert about(transformer.source_embedding.tokens.weight, 64**-0.5)


def test_embedded_tokens_and_positions_are_of_like_size():
    """Neither drowns the other."""
    config = TransformerConfig(**SIZES)
    model = Transformer(config)
    embedding: Embedding = model.source_embedding.eval()
    ids = torch.arange(200).view(4, 50)
    x = embedding(ids, AttentionContext.bidirectional(Layout.of(ids), config, torch.float32))
    codes = embedding.position_encoding(torch.arange(50), 50)
    assert 0.5 < (x - codes).std() / codes.std() < 2


def test_bert_weights_begin_as_small_normals(bert):
    """0.02, as published."""
    assert all(about(p, 0.02) for p in bert.parameters() if p.ndim == 2 and p.numel() > 1000)


def test_gpt_residual_outputs_begin_smaller_by_the_root_of_their_number(gpt):
    """Sixteen sublayers add up; their sum keeps its size (GPT-2, 2.3)."""
    outputs = [m for layer in gpt.decoder.layers for m in (layer.self_attention.output, layer.feed_forward.down_proj)]
    assert all(about(m.weight, 0.02 / 16**0.5) for m in outputs)


def test_gpt_other_weights_begin_as_small_normals(gpt):
    """0.02, as published."""
    others = [m for layer in gpt.decoder.layers for m in (layer.self_attention.query, layer.feed_forward.up_proj)]
    assert all(about(m.weight, 0.02) for m in [*others, gpt.embedding.tokens, gpt.embedding.positions])


@pytest.mark.parametrize("family", ["transformer", "gpt", "bert"])
def test_biases_begin_at_zero(family, request):
    """Nothing is preferred before training."""
    named = request.getfixturevalue(family).named_parameters()
    assert not any(parameter.any() for name, parameter in named if name.endswith("bias"))


@pytest.mark.parametrize("family", ["transformer", "gpt", "bert"])
def test_norms_begin_as_the_identity(family, request):
    """A fresh norm only norms."""
    named = request.getfixturevalue(family).named_parameters()
    assert all((parameter == 1).all() for name, parameter in named if name.endswith("norm.weight"))


@pytest.mark.parametrize("family", ["transformer", "gpt", "bert"])
def test_fresh_model_scores_all_words_about_alike(family, request, make_batch):
    """The first loss is near log V, not a hundred: sensible variance all the way through."""
    model = request.getfixturevalue(family).eval()
    ids = make_batch([8, 8]).ids
    with torch.no_grad():
        scores = model(ids, ids) if family == "transformer" else model(ids)
        scores = model.mlm(scores) if family == "bert" else scores
    assert scores.std(-1).mean() < 2


def test_same_seed_gives_the_same_weights():
    """A run can be repeated."""
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(GPT(GPTConfig(**SIZES, n_layers=1)))
    assert all(torch.equal(a, b) for a, b in zip(*(m.parameters() for m in models), strict=True))
