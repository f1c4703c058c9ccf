"""The figure of the residual stream: its vectors are those of the trace, in the order they were computed."""

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.tracing.figures import save
from sightline.tracing.figures.residual_stream import residual_stream, rms

from .models import pipeline, text_for, trace_options


def traced(name):
    return pipeline(name).trace(text_for(name), activations=("*",), **trace_options(name))


def strips(figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array())[0] for axes in figure.axes for image in axes.get_images()]


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("pre-norm", ["{}.norm", "{}.output", "{}.residual"]),
        ("transformer", ["{}.output", "{}.residual", "{}.norm"]),
    ],
)
def test_stages_follow_the_order_of_the_norms(name, points):
    trace = traced(name)
    drawn = strips(residual_stream(trace, tower="decoder", layer=0, row=1))
    names = ["decoder.embedding.output"]
    for sublayer in ("self_attention", "cross_attention", "feed_forward"):
        names += [point.format(f"decoder.0.{sublayer}") for point in points]
    for strip, point in zip(drawn, names, strict=False):
        np.testing.assert_array_equal(strip, trace[point][1])
    assert len(drawn) - len(names) == int(
        "decoder.final_norm" in trace.names and "decoder.1.self_attention.output" not in trace.names
    )


def test_a_layer_begins_with_what_the_last_one_made():
    trace = traced("pre-norm")
    last = max(
        int(name.split(".")[1]) for name in trace.names if name.startswith("encoder.") and name.split(".")[1].isdigit()
    )
    drawn = strips(residual_stream(trace, layer=last, row=0))
    before = f"encoder.{last - 1}.feed_forward.residual" if last else "encoder.embedding.output"
    np.testing.assert_array_equal(drawn[0], trace[before][0])
    np.testing.assert_array_equal(drawn[-1], trace["encoder.final_norm"][0])


def test_an_embedding_and_a_position_make_a_sum():
    tokens, positions, output = strips(residual_stream(traced("transformer"), layer=None, row=2))
    np.testing.assert_allclose(tokens + positions, output, rtol=1e-6)


@pytest.mark.parametrize("name", ["llama", "gpt", "filler"])
def test_every_family_has_a_residual_stream(name, tmp_path):
    trace = traced(name)
    tower = "encoder" if name == "filler" else "decoder"
    for layer in (None, 0):
        assert save(residual_stream(trace, tower=tower, layer=layer, title="On its way"), tmp_path / "figure.svg") == ""


def test_rms_is_the_root_of_the_mean_square():
    assert rms(np.array([3.0, -3.0, 3.0], np.float32)) == pytest.approx(3)


def test_missing_activations_are_reported():
    with pytest.raises(InputError, match=r"no encoder\.embedding\.output: trace with activations=\('\*',\)"):
        residual_stream(pipeline("transformer").trace("the cat", activations=("*.weights",)))
    with pytest.raises(InputError, match="no row 99: the encoder has the rows 0 to"):
        residual_stream(traced("transformer"), row=99)
