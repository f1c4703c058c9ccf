"""A trace as JSON that may stand inside a page: its weights packed, nothing in it that HTML could take for its own."""

import base64
import json

import numpy as np
from jaxtyping import Float

from sightline.errors import InputError
from sightline.tracing.plain import rounded, to_plain
from sightline.tracing.trace import Trace
from sightline.tracing.word_attention import WordAttention

MOST_BYTES = 100_000_000
"""A browser opens a page of this size; what is larger is no page any more."""

DIGITS = 6

UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""With these gone, and all but ASCII escaped, no text ends the element it stands in: no tag, no comment, no U+2028."""


def page_data(trace: Trace, title: str | None) -> str:
    """Return what the modules draw: the trace with its attention weights only, the tokens of each word, and a title."""
    probes = {name: trace.probes[name] for name in trace.probes if name.endswith(".weights")}
    arrays = [*probes.values(), *(trace.tree.attention.values() if trace.tree is not None else ())]
    size = 4 * sum(array.size for array in arrays)
    if not probes:
        raise InputError("this trace holds no attention weights to draw: trace again with probes=('*.weights',)")
    if size > MOST_BYTES:
        raise InputError(
            f"the page would be {size / 1e6:,.0f} MB, which no browser likes; "
            f"trace fewer heads= or layers=, or a shorter text (at most {MOST_BYTES / 1e6:,.0f} MB)"
        )
    groups = WordAttention(trace.source.words(), trace.target.words(), trace.inputs.words(), {})
    words = {
        name: [{"text": word.text, "tokens": word.tokens, "special": word.special} for word in getattr(groups, name)]
        for name in ("source", "target", "inputs")
    }
    plain = rounded({**to_plain(trace), "probes": to_plain(probes)}, DIGITS)
    data = {"title": title, "trace": {**plain, "words": words}}
    return json.dumps(data, default=three_bytes, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def three_bytes(array: Float[np.ndarray, "..."]) -> dict[str, object]:
    """Return an array as base64 of 24-bit floats, the upper bytes of 32-bit ones: five digits, four letters each."""
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4")
    rounded_up = bits + np.where(np.isfinite(array), 0x80, 0).astype("<u4")
    data = rounded_up.reshape(-1, 1).view(np.uint8)[:, 1:].tobytes()
    return {"shape": list(array.shape), "dtype": "float24", "data": base64.b64encode(data).decode("ascii")}
