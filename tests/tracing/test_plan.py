"""Memory is checked and reported before it is used."""

import tracemalloc

import pytest

from pipelines.tiny import generator_bundle
from sightline.errors import InputError, SettingsError
from sightline.tasks import pipeline_for
from sightline.tracing import EVERYTHING, TraceOptions
from sightline.tracing.plan import Plan, format_bytes

from .models import BUNDLES, ENCODERS, SENTENCE, pipeline, text_for, trace_options


def trace_with_report(work, text, **options):
    """Return the trace and the first progress message, which tells its size."""
    told = []
    trace = work.trace(text, progress=lambda what, *_: told.append(what), **options)
    return trace, told[0]


@pytest.mark.parametrize("name", BUNDLES)
@pytest.mark.parametrize("activations", [("*.weights",), EVERYTHING, ("*.value", "*.embedding.*"), ()])
def test_reported_memory_is_what_is_used(name, activations):
    trace, told = trace_with_report(
        pipeline(name), text_for(name), activations=activations, heads=[0], **trace_options(name)
    )
    assert told == f"capturing {len(trace.names)} activations, {format_bytes(trace.size)}"


def test_attention_of_hypotheses_is_reported_too():
    trace, told = trace_with_report(pipeline("transformer"), SENTENCE, beam_size=3, hypotheses=True)
    size = trace.size + sum(array.nbytes for array in trace.tree.attention.values())
    assert told == f"capturing {len(trace.names)} activations, {format_bytes(size)}"


def test_announcement_is_right_within_five_hundredths_of_what_the_process_takes():
    """Of Python's own memory, in which the arrays lie; the large part of it must be what was said."""
    work = pipeline_for(generator_bundle(max_length=512))
    prompt = "a dog ran to the house on the mat " * 30
    work.trace(
        "a dog", target="", activations=EVERYTHING, logit_lens=False
    )  # whatever is loaded at first counts as nobody's
    tracemalloc.start()
    try:
        trace = work.trace(prompt, target="", activations=EVERYTHING, logit_lens=False)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert trace.size > 5_000_000
    assert held == pytest.approx(trace.size, rel=0.05)


def test_too_much_is_refused_in_one_sentence_before_it_is_captured():
    work = pipeline("transformer")
    size = work.trace(SENTENCE).size
    assert work.trace(SENTENCE, limit=size).size == size
    with pytest.raises(
        InputError, match=r"the 5 activations of this text take .* kB, more than the limit of .*: choose"
    ):
        work.trace(SENTENCE, limit=size - 1)
    assert work.trace(SENTENCE, limit=size - 1, layers=[0]).size < size


def test_long_input_is_refused_without_having_been_captured():
    """Half a million tokens would take terabytes: planning them costs nothing."""
    points = {"decoder.0.self_attention.weights": (12, 500_000, 500_000)}
    with pytest.raises(InputError, match="take 12 TB, more than the limit of 1 GB: choose fewer") as caught:
        Plan.of(points, TraceOptions(), n_heads=12).check_limit(TraceOptions())
    assert caught.value.code == "trace_too_large"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"activations": "decoder.0.cros_attention.weights"},
            "unknown activation .* .did you mean 'decoder.0.cross_attention",
        ),
        ({"layers": [2]}, "there is no layer 2: layers are numbered from 0 to 1"),
        ({"heads": [-1]}, "there is no head -1: heads are numbered from 0 to 1"),
    ],
)
def test_missing_activations_are_reported(options, message):
    with pytest.raises(InputError, match=message):
        pipeline("transformer").trace(SENTENCE, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head_ablations": True}, "unknown trace option 'head_ablations' .did you mean 'head_ablation'"),
        ({"candidates": 0}, "candidates must be between 1 and 1,000, not 0"),
        ({"limit": -1}, "limit must be between"),
    ],
)
def test_unknown_options_are_reported(options, message):
    with pytest.raises(SettingsError, match=message):
        pipeline("transformer").trace(SENTENCE, **options)


@pytest.mark.parametrize("name", ENCODERS)
def test_model_that_does_not_write_has_no_target_and_no_beam(name):
    work = pipeline(name)
    for option in ({"beam_size": 4}, {"target": "x"}, {"to": "de"}):
        with pytest.raises(SettingsError, match="unknown trace option"):
            work.trace(text_for(name), **option)
    assert work.trace(text_for(name), target=None, to=None, beam_size=None).target.tokens == ()


def test_bytes_are_written_for_people():
    assert [format_bytes(n) for n in (0, 999, 1_000, 1_234_567, 3_200_000_000)] == [
        "0 bytes", "999 bytes", "1 kB", "1.23 MB", "3.2 GB",
    ]  # fmt: skip
