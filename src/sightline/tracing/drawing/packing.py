"""What the modules draw, as JSON that may stand inside a page or as bytes to be fetched, its arrays packed by size.

A trace of a sentence keeps five significant digits (`float24`). One of more than `MOST_EXACT` numbers keeps its weights
to four decimal places (`root16`), and of weights that a causal mask made zero only the lower triangle is kept, both
ways.
"""

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from sightline.errors import InputError
from sightline.tracing.plain import rounded, to_plain
from sightline.tracing.trace import Trace
from sightline.tracing.word_attention import WordAttention

MOST_BYTES = 100_000_000
"""A browser opens a page of this size; what is larger is no page any more."""

MOST_EXACT = 200_000
"""Numbers that a page takes along with five digits: in base64 they are 800 kB."""

DIGITS = 6

LEVELS = 65_535

UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""With these gone, and all but ASCII escaped, no text ends the element it stands in: no tag, no comment, no U+2028."""


def page_data(trace: Trace, title: str | None) -> str:
    """Return what the script of a page reads: a title, and the trace as the modules draw it."""
    return f'{{"title":{_safe(json.dumps(title))},"trace":{json_of(trace)}}}'


def json_of(trace: Trace) -> str:
    """Return what the modules draw: the trace, of its probes only the weights, and the tokens of each word."""

    def packed(array: dict[str, Any], data: bytes) -> dict[str, Any]:
        return {**array, "data": base64.b64encode(data).decode("ascii")}

    return _safe(_dumps(trace, packed))


def bytes_of(trace: Trace) -> bytes:
    """Return the same to be fetched: four bytes that count those of the JSON (little-endian), it, then the arrays."""
    arrays = bytearray()

    def packed(array: dict[str, Any], data: bytes) -> dict[str, Any]:
        start = len(arrays)
        arrays.extend(data)
        return {**array, "start": start, "length": len(data)}

    entries = _dumps(trace, packed).encode("ascii")
    return struct.pack("<I", len(entries)) + entries + bytes(arrays)


def _safe(text: str) -> str:
    """Return JSON that no HTML parser takes for anything else."""
    return text.translate(UNSAFE)


def _dumps(trace: Trace, packed: Callable[[dict[str, Any], bytes], dict[str, Any]]) -> str:
    """Return JSON in which each array stands as `packed` returns it for its description and its bytes."""
    weights = {name: trace.probes[name] for name in trace.probes if name.endswith(".weights")}
    looked = trace.tree.attention if trace.tree is not None else {}
    count = sum(array.size for array in (*weights.values(), *looked.values()))
    if not weights:
        raise InputError("this trace holds no attention weights to draw: trace again with probes=('*.weights',)")
    if 4 * count > MOST_BYTES:
        raise InputError(
            f"the page would be {4 * count / 1e6:,.0f} MB, which no browser likes; "
            f"trace fewer heads= or layers=, or a shorter text (at most {MOST_BYTES / 1e6:,.0f} MB)"
        )
    groups = WordAttention(trace.source.words(), trace.target.words(), trace.inputs.words(), {})
    words = {
        name: [{"text": word.text, "tokens": word.tokens, "special": word.special} for word in getattr(groups, name)]
        for name in ("source", "target", "inputs")
    }
    plain = rounded({**to_plain(trace), "probes": to_plain(weights)}, DIGITS)
    shares = {id(array) for array in (*weights.values(), *looked.values())} if count > MOST_EXACT else set()

    def array(value: np.ndarray) -> dict[str, Any]:
        dtype, pack = ("root16", two_bytes) if id(value) in shares else ("float24", three_bytes)
        if is_causal(value):
            lower = value[:, *np.tril_indices(value.shape[1])]
            return packed({"shape": list(value.shape), "dtype": dtype, "causal": True}, pack(lower))
        return packed({"shape": list(value.shape), "dtype": dtype}, pack(value))

    precision = "4 decimal places" if shares else "5 digits"
    data = {**plain, "words": words, "precision": precision}
    return json.dumps(data, default=array, allow_nan=False, separators=(",", ":"))


def is_causal(array: Float[np.ndarray, "..."]) -> bool:
    """Return whether these are square matrices, nothing above the diagonal of any of them."""
    square = array.ndim == 3 and array.shape[1] == array.shape[2] > 1
    return square and not np.triu(array, 1).any()


def three_bytes(array: Float[np.ndarray, "..."]) -> bytes:
    """Return 24-bit floats, the upper bytes of 32-bit ones: five significant digits."""
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4")
    nearest = bits + np.where(np.isfinite(array), 0x80, 0).astype("<u4")
    upper: UInt8[np.ndarray, "n 3"] = nearest.reshape(-1, 1).view(np.uint8)[:, 1:]
    return upper.tobytes()


def two_bytes(array: Float[np.ndarray, "..."]) -> bytes:
    """Return the fourth root of each weight in 65,536 steps: none is off by 0.00004, and small ones by far less."""
    roots = np.clip(array.astype(np.float64), 0.0, 1.0) ** 0.25
    return np.rint(roots * LEVELS).astype("<u2").tobytes()
