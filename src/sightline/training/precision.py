"""Which way each matrix product of a run takes: measured on this machine, with the shapes of this model.

1  a typical batch is run once, and the shapes of its products are noted
2  each shape is timed in every way, forward and backward, in turn: the median of five counts
3  another way than torch's own is taken only where it is at least 15 % faster, and 16 bits only where they are at least
   15 % faster than that

What was measured is kept in the user's cache, for this processor, torch and number of threads. A run records its ways,
and keeps them when it is resumed: other ways have other last digits.
"""

import hashlib
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sightline.errors import InputError, JSONError, SightlineError
from sightline.model.attention import attend_batched, attend_fused
from sightline.model.masks import Mask
from sightline.model.products import by_way, linear, rounds_to_16_bits
from sightline.runtime import MIN_ROWS, Products, Way, cache_folder, multiply_by
from sightline.storage import parse_object, write_file
from sightline.training.loss import projected_cross_entropy
from sightline.training.optimizer import Muon, orthogonalize

GAIN = 1.15
"""How many times as fast another way must be."""
ROUNDS = 5
SECONDS_PER_TURN = 0.01
MAX_FLOPS = 4e9
"""Multiplications and additions of a timed product; longer ones are timed with fewer rows."""
HOPELESS = 4
"""A way that takes this many times as long as torch's own is not timed again."""
WAYS: tuple[Way, ...] = get_args(Way)
FORCED = "SIGHTLINE_PRECISION"
"""Environment variable: with the value float32, nothing is measured, and new runs use torch's own products."""


@dataclass(frozen=True)
class Shape:
    """The shape of a product: its kind, its numbers, and how it is called in records."""

    kind: Literal["linear", "projection", "attention", "optimizer"]
    numbers: tuple[int, ...]
    """Rows, inputs and outputs; of attention texts, heads, queries, keys and width; of updates count, rows, columns."""

    def with_few_rows(self) -> "Shape":
        """Return a shape that takes little time, and as much in one way as in another."""
        n_rows, *rest = self.numbers
        return replace(self, numbers=(min(n_rows, MIN_ROWS) if self.kind in ("linear", "projection") else 1, *rest))

    @property
    def name(self) -> str:
        """Return what it is called in the cache and in records."""
        return f"{self.kind} {'x'.join(map(str, self.numbers))}"


@dataclass(frozen=True)
class ShapeRecorder(Products):
    """Computes everything as torch does by itself, and notes the shapes."""

    seen: dict[Shape, int] = field(default_factory=dict)

    def note(self, shape: Shape) -> None:
        """Count a shape."""
        self.seen[shape] = self.seen.get(shape, 0) + 1

    def way_of(self, kind: Literal["linear", "projection"], inputs: int, outputs: int, *, n_rows: int) -> Way:
        """Note a product."""
        self.note(Shape(kind, (n_rows, inputs, outputs)))
        return "default"

    def batches_attention(self, n_texts: int, n_heads: int, n_queries: int, n_keys: int, width: int) -> bool:
        """Note attention."""
        self.note(Shape("attention", (n_texts, n_heads, n_queries, n_keys, width)))
        return False


def may_measure() -> bool:
    """Tell whether the environment lets products be measured."""
    return os.environ.get(FORCED) != "float32"


def choose_products(
    run_batch: Callable[[], object], hidden_matrices: Sequence[Tensor] = (), *, use_cache: bool = True
) -> Products:
    """Measure the products of one forward and backward pass, and of Muon's updates; return the fastest sound ways."""
    recorder = ShapeRecorder()
    with multiply_by(recorder):
        run_batch()
    shapes = [*recorder.seen, *optimizer_shapes(hidden_matrices)]
    return decide(measure(shapes, use_cache=use_cache))


def optimizer_shapes(matrices: Sequence[Tensor]) -> list[Shape]:
    """Return the shape that Muon spends most on: all matrices of one shape are orthogonalized together."""
    groups: dict[tuple[int, ...], int] = {}
    for matrix in matrices:
        groups[tuple(matrix.shape)] = groups.get(tuple(matrix.shape), 0) + 1
    if not groups:
        return []
    (rows, columns), count = max(groups.items(), key=lambda item: item[1] * item[0][0] * item[0][1])
    return [Shape("optimizer", (count, rows, columns))]


Times = dict[str, float]
"""Way → seconds."""


def measure(shapes: Sequence[Shape], *, use_cache: bool = True) -> dict[Shape, Times]:
    """Return the times of every shape, those known from the cache and those measured now."""
    if not use_cache:
        return {shape: time_ways(shape) for shape in representative(shapes)}
    cache = TimingsCache.open()
    found: dict[Shape, Times] = {}
    for shape in representative(shapes):
        times = cache.times.get(shape.name)
        found[shape] = time_ways(shape) if times is None else times
    cache.add({shape.name: times for shape, times in found.items()})
    return found


def representative(shapes: Sequence[Shape]) -> list[Shape]:
    """Return one shape for each linear map, with the most rows, and rows rounded: batches are alike, not the same."""
    largest: dict[tuple[str, ...], Shape] = {}
    for shape in shapes:
        n_rows, *rest = shape.numbers
        if shape.kind == "optimizer":
            rounded = shape.numbers
        elif shape.kind == "attention":
            rounded, rest = tuple(rounded_up(number) for number in shape.numbers), []
        elif n_rows < MIN_ROWS:
            continue
        else:
            rounded = (rounded_up(n_rows), *rest)
        key, found = (shape.kind, *map(str, rest)), Shape(shape.kind, rounded)
        if key not in largest or math.prod(rounded) > math.prod(largest[key].numbers):
            largest[key] = found
    return list(largest.values())


def rounded_up(number: int) -> int:
    """Return the next number with at most two leading binary digits: 30 → 32, 163 → 192."""
    step = max(1, (1 << (number.bit_length() - 1)) // 2)
    return -(-number // step) * step


def decide(times: Mapping[Shape, Times]) -> Products:
    """Return the fastest sound way of each shape."""
    found: dict[str, dict[str, Way]] = {"linear": {}, "projection": {}}
    others: dict[str, Any] = {}
    for shape, seconds in times.items():
        way = fastest(seconds)
        if shape.kind in found:
            if way != "default":
                _, inputs, outputs = shape.numbers
                found[shape.kind][f"{inputs}x{outputs}"] = way
        elif shape.kind == "attention":
            others["attention"] = "fused" if way == "default" else "batched"
        else:
            others["optimizer"] = way
    return Products(found["linear"], found["projection"], **others)


def fastest(seconds: Times) -> Way:
    """Return the way to take: another library, or 16 bits, each only if it is worth it."""
    best: Way = "default"
    for way in ("onednn", "bfloat16"):
        if way in seconds and seconds[best] >= GAIN * seconds[way]:
            best = way
    return best


def time_ways(shape: Shape) -> Times:
    """Return the median time of each way, forward and backward, in turn.

    A turn is long enough for threads and caches to settle, as they do in training: short products are repeated.
    """
    generator = torch.get_rng_state()
    ways = [way for way in WAYS if shape.kind not in ONLY_32_BITS or not is_narrow(way)]
    # Without units for 16 bits a product of them may take seconds: a few rows show that, too.
    ways = keep_hopeful({way: timed_run(shape.with_few_rows(), way) for way in ways})
    kept = {way: timed_run(shape, way) for way in ways}
    for run in kept.values():  # the first call may build a kernel
        run()
    repeats = max(1, round(SECONDS_PER_TURN / seconds_of(kept["default"], 1)))
    seconds: dict[str, list[float]] = {way: [] for way in kept}
    for _ in range(ROUNDS):
        for way, run in kept.items():
            seconds[way].append(seconds_of(run, repeats))
    torch.set_rng_state(generator)
    return {way: statistics.median(taken) for way, taken in seconds.items()}


def is_narrow(way: Way) -> bool:
    """Tell whether a way takes factors of 16 bits on this machine."""
    return way == "bfloat16" or (way == "onednn" and rounds_to_16_bits())


def keep_hopeful(runs: Mapping[Way, Callable[[], None]]) -> list[Way]:
    """Return the ways that do not take many times as long as torch's own."""
    for run in runs.values():
        run()
    once = {way: seconds_of(run, 1) for way, run in runs.items()}
    return [way for way, seconds in once.items() if seconds <= HOPELESS * once["default"]]


def seconds_of(run: Callable[[], None], repeats: int) -> float:
    """Return the mean time of some calls."""
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - started) / repeats


ONLY_32_BITS = ("attention", "optimizer")
"""Kinds whose products are small or whose result decides the direction of an update."""


def timed_run(shape: Shape, way: Way) -> Callable[[], None]:
    """Return a function that computes products of a shape, forward and backward, in one way."""
    generator = torch.Generator().manual_seed(1)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    if shape.kind == "optimizer":
        count, rows, columns = shape.numbers
        flops = 2 * 3 * 5 * rows * columns * min(rows, columns)  # of one matrix: five steps of three products
        return time_optimizer(draw(max(1, min(count, int(MAX_FLOPS // flops))), rows, columns), way)
    if shape.kind == "attention":
        return time_attention(shape, draw, way)
    n_rows, inputs, outputs = shape.numbers
    n_rows = min(n_rows, max(MIN_ROWS, int(MAX_FLOPS // (2 * inputs * outputs))))
    x, weight = draw(n_rows, inputs).requires_grad_(), draw(outputs, inputs).mul_(inputs**-0.5).requires_grad_()
    bias, gradient = draw(outputs).requires_grad_(), draw(n_rows, outputs if shape.kind == "linear" else 1)
    targets = torch.arange(n_rows) % outputs
    ways: dict[str, Way] = {f"{inputs}x{outputs}": way}
    products = Products(ways, ways)

    def run() -> None:
        x.grad = weight.grad = bias.grad = None
        with multiply_by(products):
            if shape.kind == "linear":
                linear(x, weight, bias).backward(gradient)  # type: ignore[no-untyped-call]
            else:
                projected_cross_entropy(x, weight, targets, smoothing=0.1).backward()  # type: ignore[no-untyped-call]

    return run


def time_attention(shape: Shape, draw: Callable[..., Tensor], way: Way) -> Callable[[], None]:
    """Return a function that attends, some of the last keys hidden as padding is."""
    n_texts, n_heads, n_queries, n_keys, width = shape.numbers
    query = draw(n_texts, n_queries, n_heads, width).transpose(1, 2).requires_grad_()
    key, value = (draw(n_texts, n_keys, n_heads, width).transpose(1, 2).requires_grad_() for _ in range(2))
    visible = torch.arange(n_keys) < torch.arange(1, n_texts + 1)[:, None].clamp(min=max(1, n_keys // 2))
    mask = Mask.of(visible[:, None, None])
    attend = attend_fused if way == "default" else attend_batched
    gradient = draw(n_texts, n_heads, n_queries, width)

    def run() -> None:
        query.grad = key.grad = value.grad = None
        attend(query, key, value, mask).backward(gradient)  # type: ignore[no-untyped-call]

    return run


def time_optimizer(matrices: Tensor, way: Way) -> Callable[[], None]:
    """Return a function that orthogonalizes matrices as Muon does."""
    group = Muon([torch.nn.Parameter(matrices[0])], lr=0.0).param_groups[0]

    def run() -> None:
        with by_way(way):
            orthogonalize(matrices, group)

    return run


CACHE_FILE = "products.json"
MAX_CACHED = 2000
"""Entries of the cache for one machine; a fuller one begins anew."""


@dataclass
class TimingsCache:
    """Times measured on this machine before."""

    path: Path | None
    """None where the user has no home."""
    machine: str
    times: dict[str, Times]
    everything: dict[str, Any]

    @classmethod
    def open(cls) -> "TimingsCache":
        """Read the cache; one that cannot be read is empty."""
        machine, path = machine_key(), None
        everything: dict[str, Any] = {}
        with suppress(OSError, InputError, JSONError):
            path = cache_folder() / CACHE_FILE
            everything = dict(parse_object(path.read_bytes()))
        entries = everything.get(machine)
        known = entries if isinstance(entries, dict) and len(entries) <= MAX_CACHED else {}
        return cls(path, machine, {name: times for name, times in known.items() if is_times(times)}, everything)

    def add(self, times: Mapping[str, Times]) -> None:
        """Add what was measured; where nothing can be written, it is measured again next time."""
        if self.path is None or all(name in self.times for name in times):
            return
        self.everything[self.machine] = {**self.times, **times}
        with suppress(OSError, SightlineError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.path, json.dumps(self.everything, indent=1) + "\n")


def is_times(entry: object) -> bool:
    """Tell whether an entry of the cache is what `time_ways` returns."""
    return (
        isinstance(entry, dict)
        and "default" in entry
        and all(way in WAYS and isinstance(value, float) and value > 0 for way, value in entry.items())
    )


def machine_key() -> str:
    """Return what times depend on: processor, its features, torch, and the number of threads."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    about = [line for line in lines if line.startswith(("model name", "cpu family", "flags", "Features"))]
    digest = hashlib.sha256("\n".join(dict.fromkeys(about)).encode()).hexdigest()[:12]
    return f"{platform.machine()} {digest}, torch {torch.__version__}, {torch.get_num_threads()} threads"


def to_record(products: Products) -> dict[str, object]:
    """Return the ways as run.json holds them."""
    return {
        "linear": dict(products.linear),
        "projection": dict(products.projection),
        "attention": products.attention,
        "optimizer": products.optimizer,
        "machine": machine_key(),
    }


def from_record(record: object) -> Products:
    """Return the ways of a run that is resumed; raise `InputError` for entries that are none."""
    if not isinstance(record, dict):
        raise InputError("products are not a mapping")
    ways_of: dict[str, Mapping[str, Way]] = {}
    for kind in ("linear", "projection"):
        ways = record.get(kind, {})
        if not isinstance(ways, dict) or not all(way in WAYS for way in ways.values()):
            raise InputError(f"products of the kind {kind} are not names of ways")
        ways_of[kind] = ways
    attention, optimizer = record.get("attention", "fused"), record.get("optimizer", "default")
    if attention not in ("fused", "batched") or optimizer not in ("default", "onednn"):
        raise InputError("products have an unknown way of attention or of the optimizer")
    return Products(ways_of["linear"], ways_of["projection"], attention, optimizer)


def describe(products: Products) -> str:
    """Say in one line what was chosen."""
    if products.are_default:
        return "matrix products: torch's own, nothing else is 15 % faster here"
    narrow = "in 16 bits (bfloat16), stored in 32"
    names = {"onednn": f"by oneDNN{f', {narrow}' if rounds_to_16_bits() else ''}", "bfloat16": narrow}
    parts = []
    for way, words in names.items():
        count = sum(chosen == way for chosen in products.linear.values())
        what = [f"{count} linear shape{'s' * (count != 1)}"] if count else []
        what += ["the output projection"] if way in products.projection.values() else []
        what += ["Muon's updates"] if products.optimizer == way else []
        if what:
            parts.append(f"{' and '.join(what)} {words}")
    parts += ["attention in batches"] if products.attention == "batched" else []
    return f"matrix products, as measured here: {'; '.join(parts)} (training.precision=float32: torch's own)"
