"""The hook points of a model and the shapes of their values, without running the model.

Shapes are those of one sentence, without the batch axis; docs/shapes.md describes the points.
"""

from collections.abc import Iterator

from sightline.model.config import BlockConfig

Shape = tuple[int, ...]
Points = dict[str, Shape]

HEADED = ("query", "key", "value", "scores", "scaled", "masked", "weights", "head_outputs")
"""Points whose first axis is heads."""


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
    heads, groups, width = config.n_heads, config.n_kv_heads or config.n_heads, config.d_head
    squares = [(point, (heads, n_rows, n_keys)) for point in ("scores", "scaled", "masked", "weights")]
    return [
        ("query", (heads, n_rows, width)),
        ("key", (groups, n_keys, width)),
        ("value", (groups, n_keys, width)),
        *squares,
        ("head_outputs", (heads, n_rows, width)),
        ("merged_heads", (n_rows, config.d_model)),
        ("output", (n_rows, config.d_model)),
    ]
