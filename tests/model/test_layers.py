"""Layers: residual, norm, dropout and feed-forward (spec 3), and the weights they start with."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from sightline.model import GPT, ActivationCache, Bert, BertConfig, GPTConfig, Transformer, TransformerConfig
from sightline.model.config import BlockConfig
from sightline.model.context import AttentionContext
from sightline.model.layers import FeedForward, Stack, make_norm
from sightline.model.packing import Layout

CLOSE = {"atol": 1e-5, "rtol": 0.0}


def apply_norm(norm, x):
    """The formula of the norm."""
    if isinstance(norm, nn.RMSNorm):
        return x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    centered = x - x.mean(-1, keepdim=True)
    scaled = centered / (centered.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    return scaled if norm.bias is None else scaled + norm.bias


def sublayers(subject):
    """Every sublayer of a model in order: the name of its points, its norm, and where its stack begins."""
    found = []
    for side in ("encoder", "decoder"):
        for index, layer in enumerate(getattr(getattr(subject.model, side, None), "layers", [])):
            for kind in ("self_attention", "cross_attention", "feed_forward"):
                norm = getattr(layer, f"{kind}_norm")
                if norm is not None:
                    found.append((f"{side}.{index}.{kind}", norm, f"{side}.embedding.output"))
    return found


@pytest.fixture
def recorded(subject, batch):
    activations = ActivationCache("*.output", "*.residual", "*.norm", "*.final_norm")
    with torch.no_grad():
        subject.run(batch, hooks=activations)
    return activations


@torch.no_grad()
def test_sublayers_are_wrapped_in_residual_and_norm(subject, recorded):
    """Post: x ← norm(x + sublayer(x)); pre: x ← x + sublayer(norm(x)); in every layer of every variation (spec 3.1)."""
    post = not subject.model.config.pre_norm
    x = beginning = None
    for name, norm, stack in sublayers(subject):
        if stack != beginning:
            beginning, x = stack, recorded[stack]
        assert_close(recorded[f"{name}.residual"], x + recorded[f"{name}.output"], **CLOSE)
        assert_close(recorded[f"{name}.norm"], apply_norm(norm, recorded[f"{name}.residual"] if post else x), **CLOSE)
        x = recorded[f"{name}.norm" if post else f"{name}.residual"]


@torch.no_grad()
def test_pre_norm_stack_ends_in_a_norm_and_post_norm_in_none(subject, recorded):
    """Nothing has normalized the sum of a pre-norm stack; a post-norm stack has just done so."""
    side = "decoder" if hasattr(subject.model, "decoder") else "encoder"
    final = getattr(subject.model, side).final_norm
    if not subject.model.config.pre_norm:
        assert final is None
        return
    last = f"{side}.{subject.model.config.__dict__.get('n_layers', 2) - 1}.feed_forward.residual"
    assert_close(recorded[f"{side}.final_norm"], apply_norm(final, recorded[last]), **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer-paper", "transformer-pre_norm"])
def test_attention_sublayer_is_fed_the_norm_in_pre_order_only(make_subject, batch, name):
    """What the sublayer itself sees: x, or norm(x) (spec 3.1)."""
    subject = make_subject(name)
    activations = ActivationCache("*")
    subject.run(batch, hooks=activations)
    fed = "encoder.0.self_attention.norm" if name.endswith("pre_norm") else "encoder.embedding.output"
    attention = subject.model.encoder.layers[0].self_attention
    query = attention.query(activations[fed]).unflatten(-1, (4, 4)).transpose(1, 2)
    assert_close(activations["encoder.0.self_attention.query"], query, **CLOSE)


@pytest.mark.parametrize(("norm", "bias"), [("layer", True), ("layer", False), ("rms", True)])
def test_norm_works_on_each_position_by_itself(norm, bias):
    """LayerNorm, not BatchNorm: other sentences and lengths must not matter (spec 3.4)."""
    module = make_norm(BlockConfig(vocab_size=5, d_model=8, n_heads=2, norm=norm, bias=bias))
    x = torch.randn(3, 4, 8)
    assert_close(module(x)[1, 2], module(x[1, 2]))


BIASES = {
    "qkv_bias": ("query.bias", "key.bias", "value.bias"),
    "attention_output_bias": ("attention.output.bias",),
    "feed_forward_bias": ("up_proj.bias", "gate_proj.bias", "down_proj.bias"),
    "norm_bias": (
        "attention_norm.bias",
        "feed_forward_norm.bias",
        "final_norm.bias",
        "query_norm.bias",
        "key_norm.bias",
    ),
}


@pytest.mark.parametrize("setting", [None, *BIASES])
@pytest.mark.parametrize("bias", [False, True])
def test_bias_setting_is_that_of_its_own_weights(setting, bias):
    """One setting turned around changes its own biases and no others; none leaves all to `bias`."""
    changed = {} if setting is None else {setting: not bias}
    config = BlockConfig(
        vocab_size=5,
        d_model=8,
        n_heads=2,
        d_ff=8,
        bias=bias,
        activation="swiglu",
        pre_norm=True,
        qk_norm=True,
        **changed,
    )
    names = {name for name in Stack(config, n_layers=1, cross=True).state_dict() if name.endswith("bias")}
    expected = {ending for kind, endings in BIASES.items() for ending in endings if bias != (kind == setting)}
    assert {ending for endings in BIASES.values() for ending in endings if any(n.endswith(ending) for n in names)} == (
        expected
    )
    assert all(name.endswith(tuple(expected)) for name in names)


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("gelu", lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2),
        ("gelu_tanh", lambda x: x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2),
        ("silu", lambda x: x * torch.sigmoid(x)),
    ],
)
def test_feed_forward_is_two_linear_maps_with_the_activation_between(activation, formula):
    """max(0, xW₁ + b₁)W₂ + b₂ (3.3), or with another activation."""
    layer = FeedForward(d_model=8, d_ff=12, activation=activation)
    x = torch.randn(2, 3, 8)
    assert_close(layer(x), layer.down_proj(formula(layer.up_proj(x))), **CLOSE)


def test_feed_forward_with_swiglu_multiplies_by_the_silu_of_its_gate():
    """Which of the two maps gets the activation decides whether Llama's weights fit (Shazeer 2020)."""
    layer = FeedForward(d_model=8, d_ff=12, activation="swiglu")
    x = torch.randn(2, 3, 8)
    gate = layer.gate_proj(x)
    assert_close(layer(x), layer.down_proj(gate * torch.sigmoid(gate) * layer.up_proj(x)), **CLOSE)


def test_feed_forward_treats_each_position_by_itself():
    """Only attention mixes positions (spec 3.1)."""
    layer = FeedForward(d_model=8, d_ff=12)
    x = torch.randn(2, 3, 8)
    assert_close(layer(x)[1, 2], layer(x[1, 2]))


def test_every_decoder_layer_attends_to_the_last_encoder_layer(make_subject, batch):
    """The encoder's final output feeds all decoder layers, not layer by layer (spec 3.3)."""
    subject = make_subject("transformer-paper")
    activations = ActivationCache("*")
    with torch.no_grad():
        subject.run(batch, hooks=activations)
        encoder_output = activations["encoder.1.feed_forward.norm"]
        for index, layer in enumerate(subject.model.decoder.layers):
            key = layer.cross_attention.key(encoder_output).unflatten(-1, (4, 4)).transpose(1, 2)
            assert_close(activations[f"decoder.{index}.cross_attention.key"], key, **CLOSE)


def test_stack_has_layers_with_weights_of_their_own():
    """N layers are stacked, not one repeated (spec 3.3)."""
    stack = Stack(BlockConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=8), n_layers=3)
    pointers = {layer.feed_forward.up_proj.weight.data_ptr() for layer in stack.layers}
    assert len(pointers) == 3


class TestDropout:
    """Where a model drops, and when (spec 3.4)."""

    NAMES = ("transformer-paper", "transformer-pre_norm", "bert-bert", "gpt-gpt2")

    @staticmethod
    def record(subject, batch, seed):
        activations = ActivationCache("*")
        torch.manual_seed(seed)
        with torch.no_grad():
            subject.run(batch, hooks=activations)
        return activations

    @pytest.mark.parametrize("name", NAMES)
    def test_falls_on_the_embedding(self, make_subject, batch, name):
        """Tokens and positions together are dropped from, before the first layer."""
        subject = make_subject(name, dropout=0.5)
        subject.model.train()
        side = "decoder" if name.startswith("gpt") else "encoder"
        x = self.record(subject, batch, 1)[f"{side}.embedding.output"]
        assert 0.3 < (x == 0).float().mean() < 0.7

    @pytest.mark.parametrize("name", NAMES)
    def test_falls_on_every_sublayer_s_output_before_the_residual(self, make_subject, batch, name):
        """x + dropout(sublayer(x)): the residual itself is never dropped (5.4)."""
        subject = make_subject(name, dropout=0.5)
        subject.model.train()
        activations = self.record(subject, batch, 1)
        post = not subject.model.config.pre_norm
        x = beginning = None
        for point, _, stack in sublayers(subject):
            if stack != beginning:
                beginning, x = stack, activations[stack]
            factor = (activations[f"{point}.residual"] - x) / activations[f"{point}.output"]
            is_zero, is_two = ((factor - level).abs() < 0.01 for level in (0, 2))
            assert (is_zero | is_two).float().mean() > 0.99
            assert 0.3 < is_zero.float().mean() < 0.7
            x = activations[f"{point}.norm" if post else f"{point}.residual"]

    @pytest.mark.parametrize("name", NAMES)
    def test_falls_on_attention_after_the_softmax(self, make_subject, batch, name):
        """The weights shown are the softmax's; what is mixed uses them thinned."""
        subject = make_subject(name, dropout=0.0, attention_dropout=0.5)
        subject.model.train()
        one, other = (self.record(subject, batch, seed) for seed in (1, 2))
        path = ("decoder" if name.startswith("gpt") else "encoder") + ".0.self_attention"
        assert torch.equal(one[f"{path}.weights"], other[f"{path}.weights"])
        assert not torch.allclose(one[f"{path}.head_outputs"], other[f"{path}.head_outputs"])

    @pytest.mark.parametrize("name", NAMES)
    def test_falls_nowhere_in_evaluation(self, make_subject, batch, name):
        """Results are deterministic."""
        subject = make_subject(name, dropout=0.5, attention_dropout=0.5)
        one, other = (self.record(subject, batch, seed) for seed in (1, 2))
        assert all(torch.equal(value, other[point]) for point, value in one.seen.items())

    @pytest.mark.parametrize("name", NAMES)
    def test_of_zero_makes_training_equal_evaluation(self, make_subject, batch, name):
        """Training mode has no other effect."""
        subject = make_subject(name, dropout=0.0)
        expected = subject.run(batch)
        subject.model.train()
        assert torch.equal(subject.run(batch), expected)


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
    embedding = model.source_embedding.eval()
    ids = torch.arange(200).view(4, 50)
    context = AttentionContext.bidirectional(Layout.of(ids), config, torch.float32)
    x = embedding(ids, context)
    codes = embedding.position_encoding(x, context)
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
