"""The native engine behind the Protocol: pipelines' searches, joining and leaving, cancelling."""

import pytest
import torch

from engine.native.small import draw_texts, make_model
from sightline.decoding import ContinuousBatch, DecodingSettings, Request, SearchCancelledError, search, search_for
from sightline.engine import open_engine
from sightline.engine.interfaces import Engine
from sightline.engine.native.native_engine import NativeEngine, find_obstacle
from sightline.engine.native.weights import rope_amplitude, rope_frequencies
from sightline.engine.torch_engine import TorchEngine
from sightline.errors import SettingsError
from sightline.model import positions
from sightline.model.config import ModelConfig, Rope

SEARCHES = {
    "greedy": {},
    "beam": {"beam_size": 3, "n_best": 2},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.3},
    "rules": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 3},
    "sampling": {"do_sample": True, "seed": 5, "n_best": 2, "top_k": 9},
}


def request_for(name, texts, **settings):
    return Request(
        [[1]] * len(texts), DecodingSettings(**{"max_new_tokens": 8, **SEARCHES[name], **settings}), end_ids=[1, 2, 3]
    )


def test_engine_is_opened_by_its_name():
    engine = open_engine(make_model("gpt"), "native")
    assert isinstance(engine, NativeEngine)
    assert isinstance(engine, Engine)
    assert engine.device == torch.device("cpu")


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_finds_what_it_finds_on_torch(name):
    model = make_model("transformer")
    texts = draw_texts(3, shortest=6, longest=6)
    native, reference = NativeEngine(model, precision="fp32", threads=1), TorchEngine(model)
    found, expected = (search(one.step, one.prefill(texts), request_for(name, texts)) for one in (native, reference))
    assert [[one.ids for one in several] for several in found] == [[one.ids for one in several] for several in expected]


@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_searches_join_and_leave_a_running_batch(family):
    """Of different kinds, at different times: each finds the same as alone."""
    engine = NativeEngine(make_model(family), threads=1)
    names = [name for name in SEARCHES if family == "transformer" or name != "coverage"]
    texts = {name: draw_texts(2, seed=number, shortest=4, longest=4) for number, name in enumerate(names)}
    alone = {
        name: search(engine.step, engine.prefill(own), request_for(name, own, max_new_tokens=4 + 2 * len(name)))
        for name, own in texts.items()
    }
    batch = ContinuousBatch(engine.step)
    running = {}
    for name, own in texts.items():
        running[name] = search_for(request_for(name, own, max_new_tokens=4 + 2 * len(name)))
        batch.add([running[name]], engine.prefill(own))
        batch.advance()
    while batch.n_rows:
        batch.advance()
    assert {name: one.hypotheses for name, one in running.items()} == alone


def test_cancel_ends_searches_in_progress_only():
    engine = NativeEngine(make_model("gpt"), threads=1)
    settings = DecodingSettings(max_new_tokens=4)
    before = Request([[5]], settings, end_ids=[], cancellation=engine.cancellation)
    engine.cancel()
    with pytest.raises(SearchCancelledError):
        search(engine.step, engine.prefill([[]]), before)
    after = Request([[5]], settings, end_ids=[], cancellation=engine.cancellation)
    assert len(search(engine.step, engine.prefill([[]]), after)[0][0].ids) == 4


def test_obstacles_are_told():
    class OtherConfig(ModelConfig):
        """Of a family that the engine does not know."""

    model = make_model("gpt")
    assert find_obstacle(model) is None
    assert find_obstacle(make_model("gpt").to("meta")) == (
        "the native engine computes on the CPU, and the model is on meta"
    )
    model.config = OtherConfig(vocab_size=5)
    assert find_obstacle(model) == "the native engine does not know models of a OtherConfig"
    with pytest.raises(SettingsError, match="does not know models of a OtherConfig"):
        NativeEngine(model)


@pytest.mark.parametrize(
    "rope",
    [
        Rope(d_head=16, theta=500.0),
        Rope(d_head=16, scaling="linear", factor=4.0),
        Rope(d_head=32, scaling="llama3", factor=8.0, original_max_length=64),
        Rope(d_head=32, scaling="yarn", factor=8.0, original_max_length=64),
        Rope(d_head=32, scaling="yarn", factor=8.0, original_max_length=64, truncate=False, attention_factor=1.3),
    ],
)
def test_rotations_are_those_of_the_torch_models(rope):
    assert rope_frequencies(rope).tolist() == pytest.approx(positions.rope_frequencies(rope).tolist(), rel=1e-15)
    assert rope_amplitude(rope) == positions.rope_amplitude(rope)
