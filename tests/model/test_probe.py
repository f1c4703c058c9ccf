"""Watch points: which there are, what they show, and how they change things."""

import pytest
import torch
from torch.testing import assert_close

from sightline.model import Probe, Recorder, attention, knock_out, replace_with
from sightline.model.probe import IDLE

CLOSE = {"atol": 1e-5, "rtol": 0.0}

EMBEDDING = {"embedding.tokens", "embedding.positions", "embedding.output"}
SELF_ATTENTION = {
    "0.self_attention.query", "0.self_attention.key", "0.self_attention.value", "0.self_attention.scores",
    "0.self_attention.scaled", "0.self_attention.masked", "0.self_attention.weights", "0.self_attention.mixed",
    "0.self_attention.concatenated", "0.self_attention.output", "0.self_attention.residual", "0.self_attention.norm",
}  # fmt: skip
CROSS_ATTENTION = {
    "0.cross_attention.query", "0.cross_attention.key", "0.cross_attention.value", "0.cross_attention.scores",
    "0.cross_attention.scaled", "0.cross_attention.masked", "0.cross_attention.weights", "0.cross_attention.mixed",
    "0.cross_attention.concatenated", "0.cross_attention.output", "0.cross_attention.residual",
    "0.cross_attention.norm",
}  # fmt: skip
FEED_FORWARD = {
    "0.feed_forward.hidden", "0.feed_forward.output", "0.feed_forward.residual", "0.feed_forward.norm",
}  # fmt: skip
ENCODER_LAYER = SELF_ATTENTION | FEED_FORWARD
DECODER_LAYER = SELF_ATTENTION | CROSS_ATTENTION | FEED_FORWARD


def within(place, names):
    return {f"{place}.{name}" for name in names}


POINTS = {
    ("transformer-paper", "post"): {
        "logits",
        *within("encoder", EMBEDDING | ENCODER_LAYER),
        *within("decoder", EMBEDDING | DECODER_LAYER),
    },
    ("transformer-paper", "pre"): {
        "logits",
        *within("encoder", EMBEDDING | ENCODER_LAYER | {"final_norm"}),
        *within("decoder", EMBEDDING | DECODER_LAYER | {"final_norm"}),
    },
    ("bert-bert", "post"): {"logits", *within("encoder", EMBEDDING | {"embedding.segments"} | ENCODER_LAYER)},
    ("bert-bert", "pre"): {
        "logits",
        *within("encoder", EMBEDDING | {"embedding.segments", "final_norm"} | ENCODER_LAYER),
    },
    ("gpt-gpt2", "post"): {"logits", *within("decoder", EMBEDDING | ENCODER_LAYER)},
    ("gpt-gpt2", "pre"): {"logits", *within("decoder", EMBEDDING | {"final_norm"} | ENCODER_LAYER)},
}


def one_layer(make_subject, name, **settings):
    counts = ("n_encoder_layers", "n_decoder_layers") if name.startswith("transformer") else ("n_layers",)
    return make_subject(name, **dict.fromkeys(counts, 1), **settings)


@pytest.mark.parametrize(("name", "norm_order"), POINTS)
def test_model_has_just_these_points(make_subject, batch, name, norm_order):
    """The names are an interface: pictures and interventions are addressed by them."""
    recorder = Recorder("*")
    one_layer(make_subject, name, norm_order=norm_order).run(batch, probe=recorder)
    assert set(recorder.seen) == POINTS[name, norm_order]


@pytest.mark.parametrize("name", ["transformer-paper", "gpt-gpt2"])
def test_cached_step_has_the_points_of_the_decoder(make_subject, batch, name):
    """Decoding can be watched step by step under the same names (spec 5.3)."""
    subject = one_layer(make_subject, name)
    recorder = Recorder("*")
    subject.model.step(batch.ids[:, :1], subject.start(batch), probe=recorder)
    order = subject.model.config.norm_order
    assert set(recorder.seen) == {point for point in POINTS[name, order] if not point.startswith("encoder.")}


def shapes(*, vocabulary, cross):
    """The shape of every point of one layer, by the package's key: B 3, T 7, S 7 or 6, E 16, H 4, D 4, F 24."""
    grid = {"query": (3, 4, 7, 4), "mixed": (3, 4, 7, 4), **dict.fromkeys(("concatenated", "output"), (3, 7, 16))}
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
    """A picture can rely on B H T S."""
    recorder = Recorder("*")
    one_layer(make_subject, name).run(batch, probe=recorder)
    expected = shapes(vocabulary=vocabulary, cross=cross)
    assert {point: tuple(recorder[point].shape) for point in expected} == expected


def test_key_and_value_points_have_the_heads_of_the_groups(make_subject, batch):
    """With grouped keys the point shows the few heads there are, not copies."""
    recorder = Recorder("*.key", "*.weights")
    make_subject("gpt-grouped").run(batch, probe=recorder)
    assert recorder["decoder.0.self_attention.key"].shape == (3, 2, 7, 4)
    assert recorder["decoder.0.self_attention.weights"].shape == (3, 4, 7, 7)


@pytest.mark.parametrize("head", range(4))
@pytest.mark.parametrize("place", ["encoder.0.self_attention", "decoder.1.self_attention", "decoder.1.cross_attention"])
def test_knock_out_equals_a_head_without_columns_in_the_output_projection(make_subject, batch, place, head):
    """To silence a head is to lose its share of the output, nothing else."""
    subject = make_subject("transformer-paper")
    silenced = subject.run(batch, probe=Probe({f"{place}.mixed": knock_out(head)}))
    stack, layer, kind = place.split(".")
    output = getattr(getattr(subject.model, stack).layers[int(layer)], kind).output
    with torch.no_grad():
        output.weight[:, 4 * head : 4 * head + 4] = 0
    assert_close(silenced, subject.run(batch), **CLOSE)


def test_knock_out_of_all_heads_leaves_the_bias(make_subject, batch):
    """Several heads can be named at once."""
    recorder = Recorder("*.output", interventions={"*.mixed": knock_out(0, 1, 2, 3)})
    subject = make_subject("gpt-gpt2")
    subject.run(batch, probe=recorder)
    bias = subject.model.decoder.layers[0].self_attention.output.bias
    assert_close(recorder["decoder.0.self_attention.output"], bias.detach().expand(3, 7, 16), **CLOSE)


def test_replace_with_puts_a_value_in_a_point_s_place(make_subject, batch):
    """Patching a run with another's value gives the other's result."""
    subject = make_subject("gpt-gpt2")
    other = batch.with_ids((batch.ids + 1) % 20)
    recorder = Recorder("decoder.0.feed_forward.residual")
    expected = subject.run(other, probe=recorder)
    patch = replace_with(recorder["decoder.0.feed_forward.residual"])
    assert_close(subject.run(batch, probe=Probe({"decoder.0.feed_forward.residual": patch})), expected, **CLOSE)


def test_replace_with_widens_one_value_to_the_point_s_shape(make_subject, batch):
    """Uniform attention everywhere is one number."""
    recorder = Recorder("*.weights", interventions={"*.weights": replace_with(torch.tensor(0.5))})
    make_subject("gpt-gpt2").run(batch, probe=recorder)
    assert (recorder["decoder.1.self_attention.weights"] == 0.5).all()


def test_recorder_keeps_what_came_of_interventions():
    """What is shown is what the model went on with."""
    recorder = Recorder("point", interventions={"p*": lambda _, value: value + 1})
    assert recorder("point", torch.zeros(1)) == recorder["point"] == 1


@pytest.mark.parametrize("patterns", [("point",), ("p*",), ("*",)])
def test_recorder_keeps_what_came_of_all_interventions_whatever_their_patterns(patterns):
    """Two changes at one point, one of them under the pattern that records: both come before recording."""
    changes = {"point": lambda _, value: value + 1, "p*": lambda _, value: value * 10, "*": lambda _, value: value - 2}
    recorder = Recorder(*patterns, interventions=changes)
    assert recorder("point", torch.zeros(1)) == recorder["point"] == 8


def test_probe_takes_several_actions_at_one_point_in_order():
    """First add, then double."""
    probe = Probe({"point": [lambda _, value: value + 1, lambda _, value: value * 2]})
    assert probe("point", torch.zeros(1)) == 2


def test_probe_tells_its_actions_the_full_name():
    """One action can serve many points."""
    names = []
    Probe({"*": lambda name, _: names.append(name)}).within("encoder").within(3)("norm", torch.zeros(1))
    assert names == ["encoder.3.norm"]


def test_probe_watches_only_what_matches_here():
    """A pattern for one layer is none for the next."""
    probe = Probe({"encoder.1.*": lambda *_: None})
    assert not probe.within("encoder").within(0).watches("weights", "scores")
    assert probe.within("encoder").within(1).watches("weights", "scores")


def test_recorder_cuts_values_loose_from_the_graph(make_subject, batch):
    """Keeping a value must not keep a whole pass in memory."""
    recorder = Recorder("*")
    make_subject("gpt-gpt2").run(batch, probe=recorder)
    assert not any(value.requires_grad for value in recorder.seen.values())


def test_recorder_keeps_values_that_later_steps_cannot_change(make_subject, batch):
    """A picture of one decoding step must still be true after the beams have changed places."""
    subject = make_subject("gpt-gpt2")
    recorder = Recorder("*")
    _, cache = subject.model.step(batch.ids, subject.start(batch, capacity=16), probe=recorder)
    before = {name: value.clone() for name, value in recorder.seen.items()}
    subject.model.step(batch.ids[:, :1], cache.reorder(torch.tensor([2, 0, 1])))
    assert [name for name, value in before.items() if not torch.equal(value, recorder[name])] == []


def test_recorder_names_the_nearest_points_of_an_unknown_one():
    """A typing error is found at once."""
    recorder = Recorder("*")
    recorder.within("encoder").within(0)("self_attention.weights", torch.zeros(1))
    with pytest.raises(KeyError, match=r"no point 'encoder.0.attention.weights' .*encoder.0.self_attention.weights"):
        recorder["encoder.0.attention.weights"]


def test_recorder_says_so_when_nothing_is_near():
    """An empty list would look like a mistake of ours."""
    with pytest.raises(KeyError, match="nearest: none"):
        Recorder("*")["weights"]


def test_idle_within_is_itself():
    """The ordinary run makes no objects."""
    assert IDLE.within("encoder") is IDLE


def test_idle_watches_nothing_and_changes_nothing():
    """The ordinary run stays on the fast path."""
    value = torch.zeros(1)
    assert not IDLE.watches("weights")
    assert IDLE("weights", value) is value


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, {"attend": 0, "attend_fused": 6}),
        ("decoder.1.cross_attention.weights", {"attend": 1, "attend_fused": 5}),
        ("encoder.0.*", {"attend": 1, "attend_fused": 5}),
        ("*.scaled", {"attend": 6, "attend_fused": 0}),
        ("*.mixed", {"attend": 0, "attend_fused": 6}),
    ],
)
def test_attention_leaves_the_kernel_only_where_a_hidden_value_is_watched(
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
    make_subject("transformer-paper").run(batch, probe=Recorder(pattern) if pattern else IDLE)
    assert calls == expected


def test_unmatched_names_patterns_that_met_no_point(make_subject, batch):
    """A misspelt intervention would otherwise look like a head that does not matter."""
    subject = make_subject("gpt-gpt2")
    probe = Probe({"decoder.0.self_atention.mixed": knock_out(0), "*.mixed": knock_out(0)})
    subject.run(batch, probe=probe)
    assert probe.unmatched() == ["decoder.0.self_atention.mixed"]
