"""Pack the data the page draws: as JSON to embed in a page, or as bytes to fetch.

Short traces keep five significant digits (`float24`). With more than `MAX_EXACT_NUMBERS` numbers, weights keep four
decimal places (`root16`). Of causally masked weights only the lower triangle is kept, in both cases.
"""

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from sightline.errors import InputError
from sightline.tracing.plan import TOO_LARGE
from sightline.tracing.serialization import round_numbers, serialize
from sightline.tracing.tokenized_text import WordAttention
from sightline.tracing.trace import Trace

MAX_PAGE_BYTES = 100_000_000
"""The largest page that browsers still open."""

MAX_EXACT_NUMBERS = 200_000
"""Numbers that a page holds with five digits: 800 kB in base64."""

DIGITS = 6

LEVELS = 65_535

UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""With these and all non-ASCII characters escaped, no text can close its element: no tag, no comment, no U+2028."""


def page_data(trace: Trace, title: str | None) -> str:
    """Return the JSON that the script of a page reads: a title and the packed trace."""
    return f'{{"title":{_escape(json.dumps(title))},"trace":{pack_json(trace)}}}'


def pack_json(trace: Trace) -> str:
    """Return the trace as JSON for the JavaScript modules: of its activations only the weights, plus its words."""

    def packed(array: dict[str, Any], data: bytes) -> dict[str, Any]:
        return {**array, "data": base64.b64encode(data).decode("ascii")}

    return _escape(_dumps(trace, packed))


def pack_bytes(trace: Trace) -> bytes:
    """Return the same as bytes: the length of the JSON (four bytes, little-endian), the JSON, then the arrays."""
    arrays = bytearray()

    def packed(array: dict[str, Any], data: bytes) -> dict[str, Any]:
        start = len(arrays)
        arrays.extend(data)
        return {**array, "start": start, "length": len(data)}

    entries = _dumps(trace, packed).encode("ascii")
    return struct.pack("<I", len(entries)) + entries + bytes(arrays)


def _escape(text: str) -> str:
    """Escape JSON for use inside an HTML element."""
    return text.translate(UNSAFE)


def _dumps(trace: Trace, packed: Callable[[dict[str, Any], bytes], dict[str, Any]]) -> str:
    """Return JSON in which `packed` encodes each array, given its description and its bytes."""
    weights = {name: trace.activations[name] for name in trace.activations if name.endswith(".weights")}
    hypotheses = trace.tree.attention if trace.tree is not None else {}
    count = sum(array.size for array in (*weights.values(), *hypotheses.values()))
    if not weights and trace.model.get("n_heads"):
        raise InputError("this trace has no attention weights to draw: trace with activations=('*.weights',)")
    if 4 * count > MAX_PAGE_BYTES:
        raise InputError(
            f"the page would be {4 * count / 1e6:,.0f} MB, more than the limit of {MAX_PAGE_BYTES / 1e6:,.0f} MB: "
            "trace fewer heads= or layers=, or a shorter text",
            code=TOO_LARGE,
        )
    groups = WordAttention(trace.source.words(), trace.target.words(), trace.inputs.words(), {})
    words = {
        name: [{"text": word.text, "tokens": word.tokens, "special": word.special} for word in getattr(groups, name)]
        for name in ("source", "target", "inputs")
    }
    plain = round_numbers({**serialize(trace), "activations": serialize(weights)}, DIGITS)
    low_precision = (
        {id(array) for array in (*weights.values(), *hypotheses.values())} if count > MAX_EXACT_NUMBERS else set()
    )

    def array(value: np.ndarray) -> dict[str, Any]:
        dtype, pack = ("root16", pack_root16) if id(value) in low_precision else ("float24", pack_float24)
        if is_causal(value):
            lower = value[:, *np.tril_indices(value.shape[1])]
            return packed({"shape": list(value.shape), "dtype": dtype, "causal": True}, pack(lower))
        return packed({"shape": list(value.shape), "dtype": dtype}, pack(value))

    precision = "4 decimal places" if low_precision else "5 digits"
    data = {**plain, "words": words, "precision": precision}
    return json.dumps(data, default=array, allow_nan=False, separators=(",", ":"))


def is_causal(array: Float[np.ndarray, "..."]) -> bool:
    """Tell whether these are square matrices with zeros above the diagonal."""
    square = array.ndim == 3 and array.shape[1] == array.shape[2] > 1
    return square and not np.triu(array, 1).any()


def pack_float24(array: Float[np.ndarray, "..."]) -> bytes:
    """Return 24-bit floats, the upper bytes of 32-bit ones: five significant digits."""
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4")
    nearest = bits + np.where(np.isfinite(array), 0x80, 0).astype("<u4")
    upper: UInt8[np.ndarray, "n 3"] = nearest.reshape(-1, 1).view(np.uint8)[:, 1:]
    return upper.tobytes()


def pack_root16(array: Float[np.ndarray, "..."]) -> bytes:
    """Return the fourth root of each weight in 65,536 steps: errors stay below 0.00004, far less for small weights."""
    roots = np.clip(array.astype(np.float64), 0.0, 1.0) ** 0.25
    return np.rint(roots * LEVELS).astype("<u2").tobytes()
