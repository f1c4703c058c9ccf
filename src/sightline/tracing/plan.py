"""Plan which activations to capture, and check the memory they take before it is used."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.tracing.hook_points import HEADED, Points, Shape
from sightline.tracing.options import TraceOptions

BYTES = 4
LAYER = re.compile(r"\.(\d+)\.")
UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


@dataclass(frozen=True)
class Plan:
    """The activations to capture, with their shapes."""

    points: Points
    """All hook points of the model."""
    shapes: Points
    """Those to capture, in the order the model computes them."""
    heads: tuple[int, ...] | None

    @classmethod
    def of(cls, points: Points, options: TraceOptions, *, n_heads: int) -> "Plan":
        """Select the hook points that the options ask for."""
        heads = None if options.heads is None else check_indices("head", options.heads, n_heads)
        layers = {int(found[1]) for name in points if (found := LAYER.search(name))}
        chosen = None if options.layers is None else check_indices("layer", options.layers, max(layers) + 1)
        for pattern in options.activations:
            if not any(fnmatchcase(name, pattern) for name in points):
                raise InputError(f"{unknown_name(pattern, points, what='activation')}: docs/shapes.md lists them all")
        shapes = {
            name: captured_shape(name, shape, heads, n_heads)
            for name, shape in points.items()
            if any(fnmatchcase(name, pattern) for pattern in options.activations) and is_in_layers(name, chosen)
        }
        return cls(points, shapes, heads)

    @property
    def size(self) -> int:
        """Bytes of all captured activations."""
        return sum(BYTES * math.prod(shape) for shape in self.shapes.values())

    def check_limit(self, options: TraceOptions, *, extra: int = 0) -> None:
        """Report the memory that the activations, plus `extra` bytes, will take; raise if it is over the limit."""
        size = self.size + extra
        if size > options.limit:
            raise InputError(
                f"the {len(self.shapes):,} activations of this text take {format_bytes(size)}, more than the limit of "
                f"{format_bytes(options.limit)}: choose fewer with activations=, layers= or heads=, or raise limit="
            )
        options.progress(f"capturing {len(self.shapes):,} activations, {format_bytes(size)}", 0, 1)


def check_indices(what: str, numbers: Sequence[int], n: int) -> tuple[int, ...]:
    """Return the numbers of heads or layers in order; refuse those the model does not have."""
    missing = [number for number in numbers if not 0 <= number < n]
    if missing:
        raise InputError(f"there is no {what} {missing[0]}: {what}s are numbered from 0 to {n - 1}")
    return tuple(sorted(set(numbers)))


def is_in_layers(name: str, layers: Sequence[int] | None) -> bool:
    """Tell whether a hook point is in one of these layers, or outside all layers."""
    found = LAYER.search(name)
    return layers is None or found is None or int(found[1]) in layers


def captured_shape(name: str, shape: Shape, heads: Sequence[int] | None, n_heads: int) -> Shape:
    """Return the shape of the captured array: only the chosen heads, if the point has heads."""
    return (len(heads), *shape[1:]) if heads is not None and has_heads(name, shape, n_heads) else shape


def has_heads(name: str, shape: Shape, n_heads: int) -> bool:
    """Tell whether heads can be selected: keys and values shared by several heads are kept whole."""
    return name.rpartition(".")[2] in HEADED and shape[0] == n_heads


def format_bytes(size: int) -> str:
    """Return a number of bytes in a readable unit."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def check_ablated_heads(
    ablate_heads: Mapping[str, Sequence[int]], points: Points, n_heads: int
) -> dict[str, tuple[int, ...]]:
    """Return the heads to ablate by attention; refuse attentions and heads the model does not have."""
    known = [name.removesuffix(".head_outputs") for name in points if name.endswith(".head_outputs")]
    for name in ablate_heads:
        if name not in known:
            raise InputError(f"{unknown_name(name, known, what='attention')}: it is one of {known[0]} … {known[-1]}")
    return {name: check_indices("head", heads, n_heads) for name, heads in ablate_heads.items()}
