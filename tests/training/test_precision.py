"""What is chosen follows from what was measured; what was measured is kept, and never believed blindly."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sightline.errors import InputError
from sightline.runtime import MIN_ROWS, Products
from sightline.training import precision
from sightline.training.precision import (
    Shape,
    ShapeRecorder,
    TimingsCache,
    choose_products,
    decide,
    describe,
    fastest,
    from_record,
    measure,
    representative,
    time_ways,
    to_record,
)

from .toy import SETTINGS, new_state

LINEAR = Shape("linear", (512, 12, 20))
CHOSEN = Products({"12x20": "bfloat16"}, {"12x300": "onednn"}, "batched", "onednn")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Measure in earnest, into a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(precision.FORCED)
    return tmp_path / "cache" / "sightline" / precision.CACHE_FILE


@pytest.mark.parametrize(
    ("onednn", "bfloat16", "expected"),
    [
        (1.0, 1.0, "default"),
        (0.9, 0.88, "default"),  # less than 15 % faster
        (0.8, 0.88, "onednn"),
        (0.8, 0.75, "onednn"),  # 16 bits must be 15 % faster than that
        (0.8, 0.6, "bfloat16"),
        (1.1, 0.6, "bfloat16"),
    ],
)
def test_another_way_is_taken_only_where_it_is_worth_it(onednn, bfloat16, expected):
    assert fastest({"default": 1.0, "onednn": onednn, "bfloat16": bfloat16}) == expected


def test_hopeless_ways_are_not_among_the_times():
    assert fastest({"default": 1.0}) == "default"


def test_decision_names_every_kind_of_product():
    slow, fast = {"default": 2.0, "onednn": 1.0}, {"default": 2.0, "onednn": 2.0, "bfloat16": 1.0}
    times = {
        LINEAR: fast,
        Shape("linear", (512, 7, 7)): {"default": 1.0},
        Shape("projection", (512, 12, 300)): slow,
        Shape("attention", (4, 2, 8, 8, 6)): slow,
        Shape("optimizer", (3, 12, 20)): slow,
    }
    assert decide(times) == CHOSEN
    assert decide({}) == Products()


def test_one_shape_stands_for_all_batches():
    """Batches are alike, not the same: rows are rounded, and small products are not worth measuring."""
    shapes = [Shape("linear", (n, 12, 20)) for n in (MIN_ROWS - 1, 1000, 1020, 900)]
    shapes += [Shape("linear", (MIN_ROWS - 1, 3, 3)), Shape("optimizer", (3, 12, 20))]
    shapes += [Shape("attention", (30, 2, 17, 17, 6)), Shape("attention", (31, 2, 20, 20, 6))]
    found = representative(shapes)
    assert found == [
        Shape("linear", (1024, 12, 20)),
        Shape("optimizer", (3, 12, 20)),
        Shape("attention", (32, 2, 24, 24, 6)),
    ]


def test_shapes_of_a_model_are_noted_and_its_results_are_torchs():
    torch.manual_seed(0)
    products, plain = nn_products(), []
    recorder = ShapeRecorder()
    for ways in (recorder, Products()):
        with precision.multiply_by(ways):
            plain.append(products())
    assert torch.equal(plain[0], plain[1])
    assert recorder.seen == {Shape("linear", (MIN_ROWS, 6, 8)): 2}


def nn_products():
    """Return a function with two products of one shape."""
    from sightline.model.products import Linear

    layer, x = Linear(6, 8), torch.randn(MIN_ROWS, 6)
    return lambda: layer(x) + layer(x)


@pytest.mark.parametrize(
    "shape",
    [
        LINEAR,
        Shape("projection", (MIN_ROWS, 8, 40)),
        Shape("attention", (4, 2, 8, 6, 4)),
        Shape("optimizer", (2, 8, 12)),
    ],
    ids=lambda shape: shape.kind,
)
def test_every_kind_is_timed_and_draws_no_random_number(shape):
    before = torch.get_rng_state()
    found = time_ways(shape)
    assert found.keys() <= {"default", "onednn", "bfloat16"}
    assert "default" in found
    assert all(seconds > 0 for seconds in found.values())
    assert torch.equal(torch.get_rng_state(), before)


def test_measured_once_and_kept_for_this_machine(own_cache, monkeypatch):
    asked = []
    monkeypatch.setattr(precision, "time_ways", lambda shape: asked.append(shape) or {"default": 2.0, "onednn": 1.0})
    assert measure([LINEAR]) == measure([LINEAR]) == {LINEAR: {"default": 2.0, "onednn": 1.0}}
    assert asked == [LINEAR]
    measure([LINEAR], use_cache=False)
    assert asked == [LINEAR] * 2
    monkeypatch.setattr(precision, "machine_key", lambda: "another machine")
    measure([LINEAR])
    assert asked == [LINEAR] * 3
    assert len(json.loads(own_cache.read_text())) == 2


@pytest.mark.parametrize(
    "content",
    ["", "no JSON", "[]", '{"machine": []}', '{"KEY": {"linear 512x12x20": {"default": "fast"}}}',
     '{"KEY": {"linear 512x12x20": {"onednn": 1.0}}}', '{"KEY": {"linear 512x12x20": {"default": 1.0, "x": 1.0}}}'],
)  # fmt: skip
def test_spoiled_cache_is_measured_anew(own_cache, monkeypatch, content):
    own_cache.parent.mkdir(parents=True)
    own_cache.write_text(content.replace("KEY", precision.machine_key()))
    monkeypatch.setattr(precision, "time_ways", lambda shape: {"default": 3.0})
    assert measure([LINEAR]) == {LINEAR: {"default": 3.0}}
    assert TimingsCache.open().times == {LINEAR.name: {"default": 3.0}}


@pytest.mark.parametrize("place", ["in a file", "taken by a folder", "no home"])
def test_without_a_place_to_write_it_is_measured_each_time(own_cache, tmp_path, monkeypatch, place):
    if place == "in a file":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    elif place == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", homeless)
    else:
        own_cache.mkdir(parents=True)
    monkeypatch.setattr(precision, "time_ways", lambda shape: {"default": 3.0})
    assert measure([LINEAR]) == {LINEAR: {"default": 3.0}}


def homeless():
    """What `Path.home` does for a user without an entry in the list of users."""
    raise RuntimeError("Could not determine home directory.")


def test_choice_is_that_of_a_run_of_this_model(monkeypatch):
    """One batch forward and backward, and Muon's updates."""
    settings = replace(SETTINGS, optimizer="muon")
    state = new_state("transformer", settings)
    monkeypatch.setattr(precision, "time_ways", lambda shape: {"default": 2.0, "onednn": 1.0})
    products = choose_products(lambda: None, state.optimizer.hidden_matrices)
    assert products == Products(optimizer="onednn")


def test_hopeless_ways_are_found_out_by_a_few_rows(monkeypatch):
    """Where a product of 16 bits takes seconds, it is not asked for with all rows."""
    asked = []

    seconds = {"default": 0.01, "onednn": 0.009, "bfloat16": 0.5}
    monkeypatch.setattr(precision, "timed_run", lambda shape, way: asked.append((shape.numbers[0], way)) or Named(way))
    monkeypatch.setattr(precision, "rounds_to_16_bits", lambda: False)
    monkeypatch.setattr(precision, "seconds_of", lambda run, repeats: seconds[run.way])
    assert time_ways(LINEAR) == {"default": 0.01, "onednn": 0.009}
    few = [(MIN_ROWS, way) for way in ("default", "onednn", "bfloat16")]
    assert asked == [*few, (512, "default"), (512, "onednn")]


class Named:
    """A run that knows its way and does nothing."""

    def __init__(self, way):
        self.way = way

    def __call__(self):
        pass


def test_attention_and_updates_take_no_16_bits(monkeypatch):
    """Not even by oneDNN, where it takes them by itself."""
    monkeypatch.setattr(precision, "rounds_to_16_bits", lambda: True)
    assert time_ways(Shape("optimizer", (2, 8, 12))).keys() == {"default"}
    assert "in 16 bits (bfloat16), stored in 32" in describe(Products({"12x20": "onednn"}))


@pytest.mark.parametrize("products", [Products(), CHOSEN])
def test_record_gives_the_choice_back(products):
    record = json.loads(json.dumps(to_record(products)))
    assert from_record(record) == products
    assert record["machine"] == precision.machine_key()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (None, "not a mapping"),
        ({"linear": {"12x20": "fast"}}, "linear are not names of ways"),
        ({"linear": {"12x20": ["onednn"]}}, "linear are not names of ways"),
        ({"projection": []}, "projection are not names of ways"),
        ({"attention": "quick"}, "unknown way of attention"),
        ({"optimizer": 3}, "unknown way of attention or of the optimizer"),
        ({"optimizer": "bfloat16"}, "unknown way of attention or of the optimizer"),
    ],
)
def test_record_that_was_changed_is_refused(changed, message):
    with pytest.raises(InputError, match=message):
        from_record(None if changed is None else {**to_record(CHOSEN), **changed})


def test_choice_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(precision, "rounds_to_16_bits", lambda: False)
    assert describe(Products()) == "matrix products: torch's own, nothing else is 15 % faster here"
    assert describe(CHOSEN) == (
        "matrix products, as measured here: the output projection and Muon's updates by oneDNN; 1 linear shape in 16 "
        "bits (bfloat16), stored in 32; attention in batches (training.precision=float32: torch's own)"
    )
