"""Which probes are kept, and how much memory that takes: said, and refused where it is too much, before it is used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.tracing.points import HEADED, Points, Shape
from sightline.tracing.wishes import Wishes

BYTES = 4
LAYER = re.compile(r"\.(\d+)\.")
UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


@dataclass(frozen=True)
class Plan:
    """The probes that are kept, with their shapes."""

    points: Points
    """All that the model has."""
    shapes: Points
    """What is kept of them, in the order in which the model computes them."""
    heads: tuple[int, ...] | None

    @classmethod
    def of(cls, points: Points, wishes: Wishes, *, n_heads: int) -> "Plan":
        """Choose from all points of a model those that are wished for."""
        heads = None if wishes.heads is None else within("head", wishes.heads, n_heads)
        layers = {int(found[1]) for name in points if (found := LAYER.search(name))}
        chosen = None if wishes.layers is None else within("layer", wishes.layers, max(layers) + 1)
        for pattern in wishes.probes:
            if not any(fnmatchcase(name, pattern) for name in points):
                raise InputError(f"{unknown_name(pattern, points, what='probe')}: docs/shapes.md names them all")
        shapes = {
            name: part(name, shape, heads, n_heads)
            for name, shape in points.items()
            if any(fnmatchcase(name, pattern) for pattern in wishes.probes) and in_layers(name, chosen)
        }
        return cls(points, shapes, heads)

    @property
    def size(self) -> int:
        """Bytes of all that is kept."""
        return sum(BYTES * count(shape) for shape in self.shapes.values())

    def announce(self, wishes: Wishes, *, besides: int = 0) -> None:
        """Say how much memory the probes, and something besides, will take, or refuse where that is too much."""
        size = self.size + besides
        if size > wishes.limit:
            raise InputError(
                f"the {len(self.shapes):,} probes of this text take {in_bytes(size)}, more than the limit of "
                f"{in_bytes(wishes.limit)}: choose fewer with probes=, layers= or heads=, or raise limit="
            )
        wishes.progress(f"capturing {len(self.shapes):,} probes, {in_bytes(size)}", 0, 1)


def within(what: str, numbers: Sequence[int], most: int) -> tuple[int, ...]:
    """Return numbers that must be those of heads or layers there are, in order."""
    strange = [number for number in numbers if not 0 <= number < most]
    if strange:
        raise InputError(f"there is no {what} {strange[0]}: {what}s are numbered from 0 to {most - 1}")
    return tuple(sorted(set(numbers)))


def in_layers(name: str, layers: Sequence[int] | None) -> bool:
    """Say whether a point is in one of the layers, or in none at all."""
    found = LAYER.search(name)
    return layers is None or found is None or int(found[1]) in layers


def part(name: str, shape: Shape, heads: Sequence[int] | None, n_heads: int) -> Shape:
    """Return the shape of what is kept: some heads, where the point has them."""
    return (len(heads), *shape[1:]) if heads is not None and is_headed(name, shape, n_heads) else shape


def is_headed(name: str, shape: Shape, n_heads: int) -> bool:
    """Say whether heads can be chosen: keys and values that several heads share are kept whole."""
    return name.rpartition(".")[2] in HEADED and shape[0] == n_heads


def count(shape: Shape) -> int:
    """Return how many numbers an array has."""
    product = 1
    for size in shape:
        product *= size
    return product


def in_bytes(size: int) -> str:
    """Return a number of bytes as a person reads it."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def silenced(knock_out: Mapping[str, Sequence[int]], points: Points, n_heads: int) -> dict[str, tuple[int, ...]]:
    """Return the heads to silence by attention, refusing attentions and heads that are not there."""
    known = [name.removesuffix(".mixed") for name in points if name.endswith(".mixed")]
    for name in knock_out:
        if name not in known:
            raise InputError(f"{unknown_name(name, known, what='attention')}: it is one of {known[0]} … {known[-1]}")
    return {name: within("head", heads, n_heads) for name, heads in knock_out.items()}
