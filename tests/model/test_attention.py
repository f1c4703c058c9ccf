"""Attention step by step, the heads around it (spec 1), and dropout with the right distribution."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.model.attention import (
    MIN_ROWS_TO_FUSE,
    Dropout,
    MultiHeadAttention,
    TokenDropout,
    attend,
    attend_fused,
    fused_projection,
    keep_factors,
    softmax_or_zero,
)
from sightline.model.config import Rope
from sightline.model.hooks import ActivationCache, Hooks
from sightline.model.masks import Mask, causal_mask, padding_mask
from sightline.model.packing import Layout
from sightline.model.positions import rotate, rotation_at

CLOSE = {"atol": 1e-5, "rtol": 0.0}
STEPS = ["scores", "scaled", "masked", "weights"]


def worked_example():
    """One query and four keys of width 64 whose dot products are 112, 96, 16 and 8, and values to tell apart."""
    query = torch.zeros(1, 1, 1, 64)
    query[..., 0] = 8.0
    key = torch.zeros(1, 1, 4, 64)
    key[..., 0] = torch.tensor([14.0, 12.0, 2.0, 1.0])
    return query, key, torch.randn(1, 1, 4, 64)


def heads(*shape):
    """Query, key and value that want gradients."""
    return tuple(torch.randn(*shape, requires_grad=True) for _ in range(3))


def masked_query():
    """A mask under which the second query of the first row may attend to nothing."""
    allowed = torch.ones(2, 1, 3, 3, dtype=torch.bool)
    allowed[0, :, 1] = False
    return Mask.of(allowed)


def full_layout(x):
    return Layout.of(torch.zeros(x.shape[:2], dtype=torch.long))


def test_attend_gives_the_weights_of_the_worked_example():
    """The figures every tutorial prints must come out of our formula (spec 1.2)."""
    _, weights = attend(*worked_example())
    assert [f"{w:.4f}" for w in weights.flatten().tolist()] == ["0.8808", "0.1192", "0.0000", "0.0000"]


def test_attend_mixes_the_values_by_the_worked_example_s_weights():
    """z is the weighted sum of the values, nothing else (spec 1.2)."""
    query, key, value = worked_example()
    shares = [math.exp(x) for x in (14, 12, 2, 1)]
    expected = sum(share / sum(shares) * v for share, v in zip(shares, value[0, 0], strict=True))
    mixed, _ = attend(query, key, value)
    assert_close(mixed[0, 0, 0], expected, atol=5e-5, rtol=0.0)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("scores", ["112.0000", "96.0000", "16.0000", "8.0000"]),
        ("scaled", ["14.0000", "12.0000", "2.0000", "1.0000"]),
        ("masked", ["14.0000", "12.0000", "2.0000", "1.0000"]),
        ("weights", ["0.8808", "0.1192", "0.0000", "0.0000"]),
    ],
)
def test_attend_shows_each_step_of_the_worked_example(point, expected):
    """The hooks see the numbers of the tutorial (spec 1.2, 9.2)."""
    activations = ActivationCache(*STEPS)
    attend(*worked_example(), hooks=activations)
    assert [f"{x:.4f}" for x in activations[point].flatten().tolist()] == expected


def test_attention_takes_its_steps_in_the_fixed_order():
    """Scale after the product, mask after scaling, softmax last (spec 1.3)."""
    order = []
    attention = MultiHeadAttention(d_model=8, n_heads=2)
    x = torch.randn(1, 3, 8)
    attention(x, layout=full_layout(x), mask=None, hooks=Hooks({"*": lambda name, _: order.append(name)}))
    assert order == ["query", "key", "value", *STEPS, "head_outputs", "merged_heads", "output"]


@pytest.mark.parametrize("point", STEPS)
def test_attention_continues_with_the_value_a_hook_returns(point):
    """A value that is shown but not used would be misleading."""
    attention = MultiHeadAttention(d_model=8, n_heads=2)
    x = torch.randn(1, 3, 8)
    plain = attention(x, layout=full_layout(x), mask=None)
    changed = attention(x, layout=full_layout(x), mask=None, hooks=Hooks({point: lambda _, v: v * torch.rand(v.shape)}))
    assert not torch.allclose(plain, changed)


def test_attend_adds_the_mask_after_scaling():
    """A mask of finite numbers must not be divided by √d (spec 1.4)."""
    query, key, value = worked_example()
    activations = ActivationCache(*STEPS)
    attend(query, key, value, Mask(torch.tensor([[[[0.0, 1.0, 2.0, 3.0]]]])), hooks=activations)
    assert_close(activations["masked"] - activations["scaled"], torch.tensor([[[[0.0, 1.0, 2.0, 3.0]]]]))


@given(seed=st.integers(0, 1000), n=st.integers(1, 6))
def test_attend_gives_masked_keys_exactly_no_weight(seed, n):
    """Almost nothing is not nothing: padding would leak (spec 1.4)."""
    torch.manual_seed(seed)
    allowed = torch.rand(2, 1, n, n) < 0.5
    _, weights = attend(*heads(2, 2, n, 4), Mask.of(allowed))
    assert (weights.masked_select(~allowed.expand_as(weights)) == 0).all()


@given(seed=st.integers(0, 1000), n=st.integers(1, 6))
def test_attend_gives_weights_that_sum_to_one_where_anything_is_seen(seed, n):
    """A mixture is a mixture, whatever is hidden from it."""
    torch.manual_seed(seed)
    allowed = torch.rand(2, 1, n, n) < 0.5
    _, weights = attend(*heads(2, 2, n, 4), Mask.of(allowed))
    assert_close(weights.sum(-1), allowed.any(-1).expand(2, 2, n).float(), **CLOSE)


def test_attend_under_both_masks_attends_to_nothing_hidden_by_either():
    """Padding and causal masks compose (spec 1.4)."""
    allowed = padding_mask(torch.tensor([2, 4]), 4) & causal_mask(4)
    _, weights = attend(*heads(2, 2, 4, 4), Mask.of(allowed))
    seen = (weights > 0).any(1)
    assert torch.equal(seen, torch.stack([torch.ones(4, 4).tril() * (torch.arange(4) < n) for n in (2, 4)]).bool())


@pytest.mark.parametrize("formula", [lambda *a: attend(*a)[0], attend_fused], ids=["explicit", "fused"])
class TestAFullyMaskedQuery:
    """A query that may attend to nothing (spec 1.4), on both paths."""

    def test_gives_zeros(self, formula):
        """Never NaN, and not the mean of the masked values."""
        mixed = formula(*heads(2, 2, 3, 4), masked_query())
        assert (mixed[0, :, 1] == 0).all()

    def test_passes_back_finite_gradients(self, formula):
        """One NaN gradient ruins a whole training run."""
        inputs = heads(2, 2, 3, 4)
        gradients = torch.autograd.grad(formula(*inputs, masked_query()).square().sum(), inputs)
        assert all(gradient.isfinite().all() for gradient in gradients)

    def test_passes_back_nothing_to_itself(self, formula):
        """What gave a constant has no gradient."""
        inputs = heads(2, 2, 3, 4)
        (gradient, *_) = torch.autograd.grad(formula(*inputs, masked_query()).sum(), inputs)
        assert (gradient[0, :, 1] == 0).all()

    def test_leaves_the_others_alone(self, formula):
        """Its neighbors mix what they would without it."""
        inputs = heads(2, 2, 3, 4)
        mixed, free = formula(*inputs, masked_query()), formula(*inputs)
        assert_close(mixed[0, :, [0, 2]], free[0, :, [0, 2]], **CLOSE)


def test_softmax_or_zero_is_softmax_where_anything_is_seen():
    """The guard against NaN must not bend the formula."""
    scores = torch.randn(1, 2, 3, 4)
    assert_close(softmax_or_zero(scores), scores.softmax(-1), atol=0.0, rtol=0.0)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("masked", ["none", "causal", "padding"])
def test_attend_fused_equals_attend(groups, masked):
    """The kernel must only save time and memory."""
    query = torch.randn(2, 4, 5, 8)
    key, value = torch.randn(2, 2, groups, 5, 8)
    padding = Mask.of(padding_mask(torch.tensor([2, 5]), 5))
    mask = {"none": None, "causal": Mask.causal(5), "padding": padding}[masked]
    assert_close(attend_fused(query, key, value, mask), attend(query, key, value, mask)[0], **CLOSE)


def test_attend_lets_neighboring_heads_share_keys():
    """With grouped keys, heads 0 and 1 use the first group, 2 and 3 the second, as in Llama's weights."""
    query, (key, value) = torch.randn(1, 4, 3, 8), torch.randn(2, 1, 2, 3, 8)
    mixed, _ = attend(query, key, value)
    for head, group in enumerate((0, 0, 1, 1)):
        alone, _ = attend(query[:, [head]], key[:, [group]], value[:, [group]])
        assert_close(mixed[:, [head]], alone, **CLOSE)


def test_attention_with_one_head_is_plain_attention():
    """h = 1 is the formula with its four projections and nothing else (spec 1.5)."""
    attention = MultiHeadAttention(d_model=8, n_heads=1)
    x = torch.randn(2, 5, 8)
    query, key, value = attention.query(x), attention.key(x), attention.value(x)
    plain = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(8), dim=-1) @ value
    assert_close(attention(x, layout=full_layout(x), mask=None), attention.output(plain), **CLOSE)


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
def test_attention_is_its_heads_side_by_side(n_heads):
    """Each head is plain attention on its own columns; they are concatenated in order, then projected (spec 1.5)."""
    attention = MultiHeadAttention(d_model=8, n_heads=n_heads)
    x = torch.randn(2, 5, 8)
    parts = [linear(x).split(8 // n_heads, dim=-1) for linear in (attention.query, attention.key, attention.value)]
    alone = [
        torch.softmax(query @ key.transpose(1, 2) / math.sqrt(8 // n_heads), dim=-1) @ value
        for query, key, value in zip(*parts, strict=True)
    ]
    assert_close(attention(x, layout=full_layout(x), mask=None), attention.output(torch.cat(alone, dim=-1)), **CLOSE)


def test_attention_projects_queries_keys_and_values_separately():
    """Three learned maps, not one shared (spec 1.1)."""
    attention = MultiHeadAttention(d_model=8, n_heads=2)
    pointers = {linear.weight.data_ptr() for linear in (attention.query, attention.key, attention.value)}
    assert len(pointers) == 3


def test_cross_attention_takes_queries_from_x_and_the_rest_from_the_encoder_output():
    """Queries come from the decoder, keys and values from the encoder; one tutorial swaps them (spec 1.6)."""
    attention = MultiHeadAttention(d_model=8, n_heads=1)
    x, encoder_output = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    query, key, value = attention.query(x), attention.key(encoder_output), attention.value(encoder_output)
    plain = torch.softmax(query @ key.mT / math.sqrt(8), dim=-1) @ value
    cross_kv = attention.project_cross_kv(encoder_output, full_layout(encoder_output))
    mixed = attention.cross_attend(x, cross_kv, layout=full_layout(x), mask=None)
    assert_close(mixed, attention.output(plain), **CLOSE)


def scaled(norm):
    """Give a norm weights to tell apart."""
    torch.nn.init.normal_(norm.weight, mean=1.0, std=0.3)
    return norm


@pytest.mark.parametrize("d_head", [3, 6])
def test_attention_with_an_explicit_head_width_is_its_heads_side_by_side(d_head):
    """Narrower or wider together than the model: the output projection gives its width back."""
    attention = MultiHeadAttention(d_model=8, n_heads=2, d_head=d_head)
    x = torch.randn(2, 5, 8)
    parts = [linear(x).split(d_head, dim=-1) for linear in (attention.query, attention.key, attention.value)]
    alone = [
        torch.softmax(query @ key.transpose(1, 2) / math.sqrt(d_head), dim=-1) @ value
        for query, key, value in zip(*parts, strict=True)
    ]
    assert attention.output.in_features == 2 * d_head
    assert_close(attention(x, layout=full_layout(x), mask=None), attention.output(torch.cat(alone, dim=-1)), **CLOSE)


@pytest.mark.parametrize("cross", [False, True])
def test_attention_norms_the_queries_and_keys_of_each_head(cross):
    """Each by its own norm, over the width of a head; values stay as they are (Qwen3)."""
    attention = MultiHeadAttention(
        d_model=8, n_heads=2, make_qk_norm=lambda width: scaled(torch.nn.RMSNorm(width, eps=1e-3))
    )
    x = torch.randn(2, 5, 8)
    query, key, value = (
        linear(x).unflatten(-1, (2, 4)).transpose(1, 2) for linear in (attention.query, attention.key, attention.value)
    )
    query, key = (
        part / (part.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight
        for part, norm in ((query, attention.query_norm), (key, attention.key_norm))
    )
    merged = attend(query, key, value)[0].transpose(1, 2).flatten(2)
    how = {"layout": full_layout(x), "mask": None}
    found = (
        attention.cross_attend(x, attention.project_cross_kv(x, full_layout(x)), **how)
        if cross
        else attention(x, **how)
    )
    assert_close(found, attention.output(merged), **CLOSE)


def test_attention_norms_before_it_rotates():
    """The other order would rotate the norm's weights too."""
    attention = MultiHeadAttention(d_model=8, n_heads=2, make_qk_norm=lambda width: scaled(torch.nn.RMSNorm(width)))
    x, activations = torch.randn(1, 5, 8), ActivationCache("query", "key")
    rotation = rotation_at(torch.arange(5), 5, Rope(d_head=4))
    attention(x, layout=full_layout(x), mask=None, rotation=rotation, hooks=activations)
    for name, linear, norm in (
        ("query", attention.query, attention.query_norm),
        ("key", attention.key, attention.key_norm),
    ):
        expected = rotate(norm(linear(x).unflatten(-1, (2, 4)).transpose(1, 2)), rotation)
        assert_close(activations[name], expected, **CLOSE)


def test_attention_without_norms_has_no_weights_for_them():
    """Weights that are not there are not saved."""
    names = MultiHeadAttention(d_model=8, n_heads=2).state_dict()
    assert not any("norm" in name for name in names)


@pytest.mark.parametrize("n_rows", [MIN_ROWS_TO_FUSE - 1, MIN_ROWS_TO_FUSE])
@pytest.mark.parametrize(
    "biases", [(True, True, True), (False, False, False), (True, False, True), (False, True, False)]
)
def test_fused_projection_equals_separate_projections(n_rows, biases):
    """Few rows and many take different paths to the same numbers, whichever projections have a bias."""
    linears = [torch.nn.Linear(8, width, bias=bias) for width, bias in zip((8, 4, 4), biases, strict=True)]
    x = torch.randn(n_rows, 8)
    assert_close(fused_projection(x, *linears), torch.cat([linear(x) for linear in linears], dim=-1), **CLOSE)


MANY = 1 << 18


def bound(probability, n):
    """Five standard deviations of the rate of n independent draws."""
    return 5 * math.sqrt(probability * (1 - probability) / n)


def apply_dropout(dropout, x, *, seed=7):
    torch.manual_seed(seed)
    return dropout(x)


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.3, 0.5, 0.9, 0.99])
def test_keep_factors_drop_at_the_given_rate(probability):
    """The knob must mean what it says."""
    rate = (keep_factors(torch.empty(MANY), probability) == 0).float().mean().item()
    assert abs(rate - probability) < bound(probability, MANY)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("lane", range(4))
def test_keep_factors_drop_at_the_given_rate_in_every_lane(probability, lane):
    """One draw serves four elements; a sign bit left at zero would bias each fourth."""
    rate = (keep_factors(torch.empty(MANY), probability)[lane::4] == 0).float().mean().item()
    assert abs(rate - probability) < bound(probability, MANY // 4)


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)])
def test_keep_factors_of_lanes_are_independent(one, other):
    """Neighbors dropped together would be a different regularizer."""
    zero = keep_factors(torch.empty(MANY), 0.5).view(-1, 4) == 0
    together = (zero[:, one] & zero[:, other]).float().mean().item()
    assert abs(together - 0.25) < bound(0.25, MANY // 4)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_keep_factors_have_mean_one(probability):
    """What is kept is scaled up, so that evaluation needs no scaling."""
    mean = keep_factors(torch.empty(MANY), probability).mean().item()
    assert abs(mean - 1) < bound(probability, MANY) / (1 - probability)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_keep_factors_are_zero_or_one_constant(probability):
    """Nothing between dropped and kept, to the resolution of sixteen bits."""
    kept = keep_factors(torch.empty(1000), probability)
    kept = kept[kept != 0]
    assert (kept == kept[0]).all()
    assert_close(kept[0].item(), 1 / (1 - probability), rtol=1e-3, atol=0.0)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_keep_factors_have_the_shape_of_their_input(shape):
    """Also where the number of elements is no multiple of four, or zero."""
    assert keep_factors(torch.empty(*shape), 0.5).shape == tuple(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_keep_factors_have_the_dtype_of_their_input(dtype):
    """A half-precision value must not become a float by being dropped."""
    assert keep_factors(torch.empty(5, dtype=dtype), 0.5).dtype == dtype


def test_dropout_repeats_itself_after_seeding():
    """A run can be repeated."""
    dropout, x = Dropout(0.5), torch.randn(50, 8)
    assert torch.equal(apply_dropout(dropout, x), apply_dropout(dropout, x))


def test_dropout_differs_from_call_to_call():
    """One mask for ever would be a smaller model."""
    dropout, x = Dropout(0.5), torch.randn(50, 8)
    assert not torch.equal(dropout(x), dropout(x))


def test_dropout_repeats_itself_from_a_restored_generator_state():
    """A resumed training run continues as if it had not stopped."""
    dropout, x = Dropout(0.5), torch.randn(50, 8)
    dropout(x)
    state = torch.get_rng_state()
    first = dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), first)


def test_dropout_passes_gradients_through_the_same_mask():
    """Forward and backward must forget the same elements."""
    x = torch.randn(50, 8, requires_grad=True)
    out = Dropout(0.5)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert_close(gradient * x, out)


def test_dropout_add_passes_gradients_through_the_same_mask():
    """The residual gets its gradient whole, the dropped branch by its mask."""
    residual, x = torch.randn(2, 50, 8, requires_grad=True).unbind()
    out = Dropout(0.5).add(residual, x)
    to_residual, to_x = torch.autograd.grad(out.sum(), (residual, x))
    assert torch.equal(to_residual, torch.ones_like(to_residual))
    assert_close(residual + to_x * x, out)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_add_is_residual_plus_forward(training):
    """One pass over memory instead of two, and the same numbers."""
    dropout = Dropout(0.3).train(training)
    residual, x = torch.randn(2, 50, 8)
    expected = residual + apply_dropout(dropout, x, seed=7)
    torch.manual_seed(7)
    assert_close(dropout.add(residual, x), expected)


def test_dropout_in_evaluation_is_the_identity():
    """Results do not depend on chance."""
    x = torch.randn(50, 8)
    assert Dropout(0.5).eval()(x) is x


def test_dropout_of_probability_zero_draws_nothing():
    """A model without dropout leaves the generator alone."""
    state = torch.get_rng_state()
    Dropout(0.0)(torch.randn(0, 8))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("probability", "training", "active"), [(0.1, True, True), (0.1, False, False), (0.0, True, False)]
)
def test_dropout_is_active_in_training_only(probability, training, active):
    """Attention asks this before it leaves the fused kernel."""
    assert Dropout(probability).train(training).active is active


def test_token_dropout_zeroes_whole_tokens_and_keeps_the_mean():
    """A token is there or not; the others are scaled up."""
    x = torch.ones(2000, 3)
    out = apply_dropout(TokenDropout(0.25), x)
    assert torch.equal(out, out[:, :1].expand(-1, 3))
    assert set(out.unique().tolist()) == {0.0, out.max().item()}
    assert_close(out.max(), torch.tensor(1 / 0.75), atol=1e-3, rtol=0.0)
    assert 0.2 < (out[:, 0] == 0).float().mean() < 0.3


def test_token_dropout_in_evaluation_is_the_identity():
    x = torch.randn(4, 8)
    assert TokenDropout(0.5).eval()(x) is x
