"""Hook points: their names, their values, and how actions change them."""

import pytest
import torch
from torch.testing import assert_close

from sightline.model import ActivationCache, Hooks, ablate_heads, attention, replace_with
from sightline.model.hooks import NO_HOOKS

CLOSE = {"atol": 1e-5, "rtol": 0.0}

EMBEDDING = {"embedding.tokens", "embedding.positions", "embedding.output"}
SELF_ATTENTION = {
    "0.self_attention.query", "0.self_attention.key", "0.self_attention.value", "0.self_attention.scores",
    "0.self_attention.scaled", "0.self_attention.masked", "0.self_attention.weights",
    "0.self_attention.head_outputs", "0.self_attention.merged_heads", "0.self_attention.output",
    "0.self_attention.residual", "0.self_attention.norm",
}  # fmt: skip
CROSS_ATTENTION = {
    "0.cross_attention.query", "0.cross_attention.key", "0.cross_attention.value", "0.cross_attention.scores",
    "0.cross_attention.scaled", "0.cross_attention.masked", "0.cross_attention.weights",
    "0.cross_attention.head_outputs", "0.cross_attention.merged_heads", "0.cross_attention.output",
    "0.cross_attention.residual", "0.cross_attention.norm",
}  # fmt: skip
FEED_FORWARD = {
    "0.feed_forward.hidden", "0.feed_forward.output", "0.feed_forward.residual", "0.feed_forward.norm",
}  # fmt: skip
ENCODER_LAYER = SELF_ATTENTION | FEED_FORWARD
DECODER_LAYER = SELF_ATTENTION | CROSS_ATTENTION | FEED_FORWARD


def within(path, names):
    return {f"{path}.{name}" for name in names}


POINTS = {
    ("transformer-paper", False): {
        "logits",
        *within("encoder", EMBEDDING | ENCODER_LAYER),
        *within("decoder", EMBEDDING | DECODER_LAYER),
    },
    ("transformer-paper", True): {
        "logits",
        *within("encoder", EMBEDDING | ENCODER_LAYER | {"final_norm"}),
        *within("decoder", EMBEDDING | DECODER_LAYER | {"final_norm"}),
    },
    ("bert-bert", False): {"logits", *within("encoder", EMBEDDING | {"embedding.segments"} | ENCODER_LAYER)},
    ("bert-bert", True): {
        "logits",
        *within("encoder", EMBEDDING | {"embedding.segments", "final_norm"} | ENCODER_LAYER),
    },
    ("gpt-gpt2", False): {"logits", *within("decoder", EMBEDDING | ENCODER_LAYER)},
    ("gpt-gpt2", True): {"logits", *within("decoder", EMBEDDING | {"final_norm"} | ENCODER_LAYER)},
}


def one_layer(make_subject, name, **settings):
    counts = ("n_encoder_layers", "n_decoder_layers") if name.startswith("transformer") else ("n_layers",)
    return make_subject(name, **dict.fromkeys(counts, 1), **settings)


@pytest.mark.parametrize(("name", "pre_norm"), POINTS)
def test_model_has_just_these_points(make_subject, batch, name, pre_norm):
    """The names are an interface: visualizations and interventions use them."""
    activations = ActivationCache("*")
    one_layer(make_subject, name, pre_norm=pre_norm).run(batch, hooks=activations)
    assert set(activations.seen) == POINTS[name, pre_norm]


@pytest.mark.parametrize("name", ["transformer-paper", "gpt-gpt2"])
def test_cached_step_has_the_points_of_the_decoder(make_subject, batch, name):
    """Decoding can be watched step by step under the same names (spec 5.3)."""
    subject = one_layer(make_subject, name)
    activations = ActivationCache("*")
    subject.model.step(batch.ids[:, :1], subject.start(batch), hooks=activations)
    points = POINTS[name, subject.model.config.pre_norm]
    assert set(activations.seen) == {point for point in points if not point.startswith("encoder.")}


def shapes(*, vocabulary, cross):
    """The shape of every point of one layer, by the package's key: B 3, T 7, S 7 or 6, E 16, H 4, D 4, F 24."""
    grid = {
        "query": (3, 4, 7, 4),
        "head_outputs": (3, 4, 7, 4),
        **dict.fromkeys(("merged_heads", "output"), (3, 7, 16)),
    }
    own = {**grid, **dict.fromkeys(("key", "value"), (3, 4, 7, 4))}
    own |= dict.fromkeys(("scores", "scaled", "masked", "weights"), (3, 4, 7, 7))
    across = {**grid, **dict.fromkeys(("key", "value"), (3, 4, 6, 4))}
    across |= dict.fromkeys(("scores", "scaled", "masked", "weights"), (3, 4, 7, 6))
    found = {f"0.self_attention.{point}": shape for point, shape in own.items()}
    if cross:
        found |= {f"0.cross_attention.{point}": shape for point, shape in across.items()}
    found |= {"0.feed_forward.hidden": (3, 7, 24), "0.feed_forward.output": (3, 7, 16)}
    found |= {"embedding.tokens": (3, 7, 16), "embedding.output": (3, 7, 16)}
    return {f"decoder.{name}": shape for name, shape in found.items()} | {"logits": (3, 7, vocabulary)}


@pytest.mark.parametrize(("name", "cross", "vocabulary"), [
    ("transformer-separate_target", True, 23), ("gpt-gpt2", False, 20),
])  # fmt: skip
def test_points_have_the_shapes_of_the_key(make_subject, batch, name, cross, vocabulary):
    """Visualizations rely on B H T S."""
    activations = ActivationCache("*")
    one_layer(make_subject, name).run(batch, hooks=activations)
    expected = shapes(vocabulary=vocabulary, cross=cross)
    assert {point: tuple(activations[point].shape) for point in expected} == expected


def test_points_of_wide_heads_are_as_wide_as_the_heads(make_subject, batch):
    """Concatenated heads are then wider than the model, until the output projection."""
    activations = ActivationCache("*")
    make_subject("gpt-wide_heads").run(batch, hooks=activations)
    expected = {"query": (3, 4, 7, 6), "head_outputs": (3, 4, 7, 6), "merged_heads": (3, 7, 24), "output": (3, 7, 16)}
    assert {name: tuple(activations[f"decoder.0.self_attention.{name}"].shape) for name in expected} == expected


def test_ablating_a_wide_head_removes_its_columns(make_subject, batch):
    """As many as the head is wide."""
    subject = make_subject("transformer-qwen3")
    point = "decoder.1.cross_attention"
    ablated = subject.run(batch, hooks=Hooks({f"{point}.head_outputs": ablate_heads(2)}))
    with torch.no_grad():
        subject.model.decoder.layers[1].cross_attention.output.weight[:, 12:18] = 0
    assert_close(ablated, subject.run(batch), **CLOSE)


def test_key_and_value_points_have_the_heads_of_the_groups(make_subject, batch):
    """With grouped keys the point shows the few heads there are, not copies."""
    activations = ActivationCache("*.key", "*.weights")
    make_subject("gpt-grouped").run(batch, hooks=activations)
    assert activations["decoder.0.self_attention.key"].shape == (3, 2, 7, 4)
    assert activations["decoder.0.self_attention.weights"].shape == (3, 4, 7, 7)


@pytest.mark.parametrize("head", range(4))
@pytest.mark.parametrize("path", ["encoder.0.self_attention", "decoder.1.self_attention", "decoder.1.cross_attention"])
def test_ablating_equals_a_head_without_columns_in_the_output_projection(make_subject, batch, path, head):
    """Ablating a head removes its part of the output, nothing else."""
    subject = make_subject("transformer-paper")
    ablated = subject.run(batch, hooks=Hooks({f"{path}.head_outputs": ablate_heads(head)}))
    stack, layer, kind = path.split(".")
    output = getattr(getattr(subject.model, stack).layers[int(layer)], kind).output
    with torch.no_grad():
        output.weight[:, 4 * head : 4 * head + 4] = 0
    assert_close(ablated, subject.run(batch), **CLOSE)


def test_ablating_all_heads_leaves_the_bias(make_subject, batch):
    """Several heads can be named at once."""
    activations = ActivationCache("*.output", interventions={"*.head_outputs": ablate_heads(0, 1, 2, 3)})
    subject = make_subject("gpt-gpt2")
    subject.run(batch, hooks=activations)
    bias = subject.model.decoder.layers[0].self_attention.output.bias
    assert_close(activations["decoder.0.self_attention.output"], bias.detach().expand(3, 7, 16), **CLOSE)


def test_replace_with_puts_a_value_in_a_point_s_place(make_subject, batch):
    """Patching a run with another's value gives the other's result."""
    subject = make_subject("gpt-gpt2")
    other = batch.with_ids((batch.ids + 1) % 20)
    activations = ActivationCache("decoder.0.feed_forward.residual")
    expected = subject.run(other, hooks=activations)
    patch = replace_with(activations["decoder.0.feed_forward.residual"])
    assert_close(subject.run(batch, hooks=Hooks({"decoder.0.feed_forward.residual": patch})), expected, **CLOSE)


def test_replace_with_broadcasts_one_value_to_the_shape_of_the_point(make_subject, batch):
    """Uniform attention everywhere is one number."""
    activations = ActivationCache("*.weights", interventions={"*.weights": replace_with(torch.tensor(0.5))})
    make_subject("gpt-gpt2").run(batch, hooks=activations)
    assert (activations["decoder.1.self_attention.weights"] == 0.5).all()


def test_activation_cache_keeps_the_result_of_interventions():
    """What is cached is what the model continued with."""
    activations = ActivationCache("point", interventions={"p*": lambda _, value: value + 1})
    assert activations("point", torch.zeros(1)) == activations["point"] == 1


@pytest.mark.parametrize("patterns", [("point",), ("p*",), ("*",)])
def test_activation_cache_keeps_the_result_of_all_interventions_whatever_their_patterns(patterns):
    """Two changes at one point, one of them under the pattern that records: both come before recording."""
    changes = {"point": lambda _, value: value + 1, "p*": lambda _, value: value * 10, "*": lambda _, value: value - 2}
    activations = ActivationCache(*patterns, interventions=changes)
    assert activations("point", torch.zeros(1)) == activations["point"] == 8


def test_hooks_takes_several_actions_at_one_point_in_order():
    """First add, then double."""
    hooks = Hooks({"point": [lambda _, value: value + 1, lambda _, value: value * 2]})
    assert hooks("point", torch.zeros(1)) == 2


def test_hooks_tells_its_actions_the_full_name():
    """One action can serve many points."""
    names = []
    Hooks({"*": lambda name, _: names.append(name)}).within("encoder").within(3)("norm", torch.zeros(1))
    assert names == ["encoder.3.norm"]


def test_hooks_watches_only_what_matches_here():
    """A pattern for one layer is none for the next."""
    hooks = Hooks({"encoder.1.*": lambda *_: None})
    assert not hooks.within("encoder").within(0).watches("weights", "scores")
    assert hooks.within("encoder").within(1).watches("weights", "scores")


def test_activation_cache_detaches_values_from_the_graph(make_subject, batch):
    """Caching a value must not keep the graph of a whole pass in memory."""
    activations = ActivationCache("*")
    make_subject("gpt-gpt2").run(batch, hooks=activations)
    assert not any(value.requires_grad for value in activations.seen.values())


def test_activation_cache_keeps_values_that_later_steps_cannot_change(make_subject, batch):
    """The cached values of one decoding step must stay valid after the beams are reordered."""
    subject = make_subject("gpt-gpt2")
    activations = ActivationCache("*")
    _, cache = subject.model.step(batch.ids, subject.start(batch, capacity=16), hooks=activations)
    before = {name: value.clone() for name, value in activations.seen.items()}
    subject.model.step(batch.ids[:, :1], cache.reorder(torch.tensor([2, 0, 1])))
    assert [name for name, value in before.items() if not torch.equal(value, activations[name])] == []


def test_activation_cache_names_the_nearest_points_of_an_unknown_one():
    """A typing error is found at once."""
    activations = ActivationCache("*")
    activations.within("encoder").within(0)("self_attention.weights", torch.zeros(1))
    with pytest.raises(KeyError, match=r"no point 'encoder.0.attention.weights' .*encoder.0.self_attention.weights"):
        activations["encoder.0.attention.weights"]


def test_activation_cache_says_so_when_nothing_is_near():
    """An empty list would look like a mistake of ours."""
    with pytest.raises(KeyError, match="nearest: none"):
        ActivationCache("*")["weights"]


def test_no_hooks_within_is_itself():
    """The ordinary run makes no objects."""
    assert NO_HOOKS.within("encoder") is NO_HOOKS


def test_no_hooks_watches_nothing_and_changes_nothing():
    """The ordinary run stays on the fast path."""
    value = torch.zeros(1)
    assert not NO_HOOKS.watches("weights")
    assert NO_HOOKS("weights", value) is value


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, {"attend": 0, "attend_fused": 6}),
        ("decoder.1.cross_attention.weights", {"attend": 1, "attend_fused": 5}),
        ("encoder.0.*", {"attend": 1, "attend_fused": 5}),
        ("*.scaled", {"attend": 6, "attend_fused": 0}),
        ("*.head_outputs", {"attend": 0, "attend_fused": 6}),
    ],
)
def test_attention_leaves_the_kernel_only_where_an_unfused_point_is_hooked(
    make_subject, batch, monkeypatch, pattern, expected
):
    """Watching one head of one layer must not slow the others."""
    calls = {"attend": 0, "attend_fused": 0}

    def counted(name, original):
        def call(*arguments, **options):
            calls[name] += 1
            return original(*arguments, **options)

        return call

    for name in calls:
        monkeypatch.setattr(attention, name, counted(name, getattr(attention, name)))
    make_subject("transformer-paper").run(batch, hooks=ActivationCache(pattern) if pattern else NO_HOOKS)
    assert calls == expected


def test_unmatched_lists_patterns_that_matched_no_point(make_subject, batch):
    """A misspelled intervention would otherwise look like a head without effect."""
    subject = make_subject("gpt-gpt2")
    hooks = Hooks({"decoder.0.self_atention.head_outputs": ablate_heads(0), "*.head_outputs": ablate_heads(0)})
    subject.run(batch, hooks=hooks)
    assert hooks.unmatched() == ["decoder.0.self_atention.head_outputs"]
