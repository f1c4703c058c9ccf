"""What to trace: the options, the hook points of a model, and the memory that their values take."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from sightline.config import Checks, unknown_name
from sightline.decoding import DecodingSettings
from sightline.errors import InputError, SettingsError
from sightline.model.config import BlockConfig

DEFAULT_ACTIVATIONS = ("*.weights",)
"""The weights of every attention."""
EVERYTHING = ("*",)
"""Every activation."""
GIGABYTE = 1_000_000_000
TOO_LARGE = "trace_too_large"
"""The code of the error that a trace exceeds a limit of memory."""

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called with the current stage, the amount done, and the total."""


def ignore_progress(what: str, done: int, total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """What a trace captures and computes besides tokens and steps."""

    activations: Sequence[str] = field(
        default=DEFAULT_ACTIVATIONS, metadata={"help": "activations to capture, by name; `*` matches anything"}
    )
    layers: Sequence[int] | None = field(default=None, metadata={"help": "capture only these layers"})
    heads: Sequence[int] | None = field(default=None, metadata={"help": "capture only these heads"})
    candidates: int = field(default=10, metadata={"help": "number of candidate tokens per step"})
    logit_lens: bool = field(default=True, metadata={"help": "logit lens: the top tokens after every layer"})
    head_ablation: bool = field(default=False, metadata={"help": "head ablation: effect of removing each head"})
    hypotheses: bool = field(default=False, metadata={"help": "also capture the attention of every beam hypothesis"})
    ablate_heads: Mapping[str, Sequence[int]] = field(
        default_factory=dict, metadata={"help": "heads to ablate: {'decoder.1.cross_attention': [0, 3]}"}
    )
    limit: int = field(default=GIGABYTE, metadata={"help": "memory limit for the activations, in bytes"})
    progress: Progress = field(default=ignore_progress, metadata={"help": "callback that reports progress"})

    def __post_init__(self) -> None:
        if isinstance(self.activations, str):
            object.__setattr__(self, "activations", (self.activations,))
        checks = Checks()
        checks.between(1, 1_000, candidates=self.candidates)
        checks.between(0, 1 << 50, limit=self.limit)
        checks.done()

    @classmethod
    def of(cls, options: Mapping[str, Any], *, generates: bool) -> "tuple[TraceOptions, dict[str, Any]]":
        """Split keyword options into trace options and, for models that generate, decoding settings; drop None."""
        options = {name: value for name, value in options.items() if value is not None}
        own_names = [one.name for one in dataclasses.fields(cls)]
        settings = [one.name for one in dataclasses.fields(DecodingSettings)] if generates else []
        unknown = [name for name in options if name not in (*own_names, *settings)]
        if unknown:
            raise SettingsError(unknown_name(unknown[0], [*own_names, *settings], what="trace option"))
        own = {name: value for name, value in options.items() if name in own_names}
        return cls(**own), {name: value for name, value in options.items() if name in settings}


Shape = tuple[int, ...]
Points = dict[str, Shape]
"""Hook points, described in docs/shapes.md, and their shapes for one sentence, without the batch axis."""


def tower_points(
    tower: str, config: BlockConfig, *, n_layers: int, n_rows: int, n_source: int | None = None, n_segments: int = 0
) -> Points:
    """Return the points of an encoder or decoder over `n_rows` tokens, with cross-attention to `n_source` tokens."""
    wide = (n_rows, config.d_model)
    parts = ["tokens"]
    parts += ["positions"] if config.positions not in ("rope", "none") else []
    parts += ["segments"] if n_segments else []
    points: Points = {f"{tower}.embedding.{part}": wide for part in (*parts, "output")}
    for layer in range(n_layers):
        for part, shape in layer_points(config, n_rows=n_rows, n_source=n_source):
            points[f"{tower}.{layer}.{part}"] = shape
    if config.pre_norm:
        points[f"{tower}.final_norm"] = wide
    return points


def layer_points(config: BlockConfig, *, n_rows: int, n_source: int | None) -> Iterator[tuple[str, Shape]]:
    """Yield the points of one layer in the order they are computed."""
    wide = (n_rows, config.d_model)
    parts: list[tuple[str, list[tuple[str, Shape]]]] = [("self_attention", attention_points(config, n_rows, n_rows))]
    if n_source is not None:
        parts.append(("cross_attention", attention_points(config, n_rows, n_source)))
    parts.append(("feed_forward", [("hidden", (n_rows, config.d_ff)), ("output", wide)]))
    for sublayer, inner in parts:
        pre_norm = [("norm", wide), *inner, ("residual", wide)]
        ordered = pre_norm if config.pre_norm else [*inner, ("residual", wide), ("norm", wide)]
        for point, shape in ordered:
            yield f"{sublayer}.{point}", shape


def attention_points(config: BlockConfig, n_rows: int, n_keys: int) -> list[tuple[str, Shape]]:
    """Return the points of one attention."""
    heads, groups, width = config.n_heads, config.n_kv_heads or config.n_heads, config.head_width
    squares = [(point, (heads, n_rows, n_keys)) for point in ("scores", "scaled", "masked", "weights")]
    return [
        ("query", (heads, n_rows, width)),
        ("key", (groups, n_keys, width)),
        ("value", (groups, n_keys, width)),
        *squares,
        ("head_outputs", (heads, n_rows, width)),
        ("merged_heads", (n_rows, heads * width)),
        ("output", (n_rows, config.d_model)),
    ]


BYTES_PER_NUMBER = 4
LAYER = re.compile(r"\.(\d+)\.")


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
        chosen = None if options.layers is None else check_indices("layer", options.layers, max(layers, default=-1) + 1)
        for pattern in options.activations:
            if pattern not in DEFAULT_ACTIVATIONS and not any(fnmatchcase(name, pattern) for name in points):
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
        return sum(BYTES_PER_NUMBER * math.prod(shape) for shape in self.shapes.values())

    def check_limit(self, options: TraceOptions, *, extra: int = 0) -> None:
        """Report the memory that the activations, plus `extra` bytes, will take; raise if it is over the limit."""
        size = self.size + extra
        if size > options.limit:
            raise InputError(
                f"the {len(self.shapes):,} activations of this text take {format_bytes(size)}, more than the limit of "
                f"{format_bytes(options.limit)}: choose fewer with activations=, layers= or heads=, or raise limit=",
                code=TOO_LARGE,
            )
        options.progress(f"capturing {len(self.shapes):,} activations, {format_bytes(size)}", 0, 1)


def check_indices(what: str, numbers: Sequence[int], n: int) -> tuple[int, ...]:
    """Return the numbers of heads or layers in order; refuse those the model does not have."""
    missing = [number for number in numbers if not 0 <= number < n]
    if missing:
        have = f"{what}s are numbered from 0 to {n - 1}" if n else f"this model has no {what}s"
        raise InputError(f"there is no {what} {missing[0]}: {have}", code=f"no_such_{what}")
    return tuple(sorted(set(numbers)))


def is_in_layers(name: str, layers: Sequence[int] | None) -> bool:
    """Tell whether a hook point is in one of these layers, or outside all layers."""
    found = LAYER.search(name)
    return layers is None or found is None or int(found[1]) in layers


def captured_shape(name: str, shape: Shape, heads: Sequence[int] | None, n_heads: int) -> Shape:
    """Return the shape of the captured array: only the chosen heads, if the point has heads."""
    return (len(heads), *shape[1:]) if heads is not None and has_heads(name, shape, n_heads) else shape


HEADED = ("query", "key", "value", "scores", "scaled", "masked", "weights", "head_outputs")
"""Points whose first axis is heads."""


def has_heads(name: str, shape: Shape, n_heads: int) -> bool:
    """Tell whether heads can be selected: keys and values shared by several heads are kept whole."""
    return name.rpartition(".")[2] in HEADED and shape[0] == n_heads


UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def format_bytes(size: int) -> str:
    """Return a number of bytes in a readable unit."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
