"""Every point of a model that a probe can watch, and how large its value will be, without running the model.

The shapes are those of one sentence, its batch left out; docs/shapes.md tells what the points are.
"""

from collections.abc import Iterator

from sightline.model.config import BlockConfig

Shape = tuple[int, ...]
Points = dict[str, Shape]

HEADED = ("query", "key", "value", "scores", "scaled", "masked", "weights", "mixed")
"""Points whose first axis are heads."""


def tower_points(
    tower: str, config: BlockConfig, *, n_layers: int, n_rows: int, n_memory: int | None = None, n_segments: int = 0
) -> Points:
    """Return the points of an encoder or a decoder over so many tokens; `n_memory` are those it looks across at."""
    wide = (n_rows, config.d_model)
    places = ["tokens"]
    places += ["positions"] if config.positions not in ("rotary", "none") else []
    places += ["segments"] if n_segments else []
    points: Points = {f"{tower}.embedding.{place}": wide for place in (*places, "output")}
    for layer in range(n_layers):
        for place, shape in layer_points(config, n_rows=n_rows, n_memory=n_memory):
            points[f"{tower}.{layer}.{place}"] = shape
    if config.norm_order == "pre":
        points[f"{tower}.final_norm"] = wide
    return points


def layer_points(config: BlockConfig, *, n_rows: int, n_memory: int | None) -> Iterator[tuple[str, Shape]]:
    """Yield the points of one layer in the order in which they are computed."""
    wide = (n_rows, config.d_model)
    parts: list[tuple[str, list[tuple[str, Shape]]]] = [("self_attention", attention_points(config, n_rows, n_rows))]
    if n_memory is not None:
        parts.append(("cross_attention", attention_points(config, n_rows, n_memory)))
    parts.append(("feed_forward", [("hidden", (n_rows, config.d_ff)), ("output", wide)]))
    for sublayer, inner in parts:
        around = [("norm", wide), *inner, ("residual", wide)]
        ordered = around if config.norm_order == "pre" else [*inner, ("residual", wide), ("norm", wide)]
        for point, shape in ordered:
            yield f"{sublayer}.{point}", shape


def attention_points(config: BlockConfig, n_rows: int, n_keys: int) -> list[tuple[str, Shape]]:
    """Return the points within an attention."""
    heads, groups, width = config.n_heads, config.n_kv_heads or config.n_heads, config.d_head
    squares = [(point, (heads, n_rows, n_keys)) for point in ("scores", "scaled", "masked", "weights")]
    return [
        ("query", (heads, n_rows, width)),
        ("key", (groups, n_keys, width)),
        ("value", (groups, n_keys, width)),
        *squares,
        ("mixed", (heads, n_rows, width)),
        ("concatenated", (n_rows, config.d_model)),
        ("output", (n_rows, config.d_model)),
    ]
