"""metrics.jsonl a part at a time, while a run may be writing it: what came since an offset, and where to go on.

An answer names the offset behind its last whole line and a tag of the bytes before it. A run that goes on from a
checkpoint cuts its file back: then the tag no longer fits, and the file is told from its beginning again.
"""

import json
import math
import zlib
from io import FileIO
from itertools import islice
from pathlib import Path

from sightline.bundle.source import open_regular
from sightline.errors import ModelFileError
from sightline.training.state import Metric

MOST_BYTES = 2 << 20
"""Of an answer: whoever wants more asks again."""
MOST_TOLD = 32 << 20
"""Of a file larger than this, only its end is told."""
TAGGED = 256
MOST_ENTRIES = 60
LONGEST_TEXT = 2_000
EXACT = 1 << 53


def read_since(path: Path, since: int, tag: str) -> dict[str, object]:
    """Return the records after an offset; `reset` says that those before are to be forgotten."""
    try:
        file = open_regular(path)
    except ModelFileError:  # a link, a pipe: no file of a run
        file = None
    if file is None:
        return {"records": [], "next": 0, "tag": "", "reset": since > 0, "more": False}
    with file:
        size = file.seek(0, 2)
        fits = 0 < since <= size and tag_at(file, since) == tag
        start = since if fits else max(0, size - MOST_TOLD)
        data = part(file, start, MOST_BYTES)
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == MOST_BYTES:
            whole = len(data)  # no line of a run is that long: it is passed over
        end = start + whole
        records = [record for line in data[:whole].splitlines() if (record := record_of(line)) is not None]
        more = len(data) == MOST_BYTES
        return {
            "records": records,
            "next": end,
            "tag": tag_at(file, end),
            "reset": since > 0 and not fits,
            "more": more,
        }


def tag_at(file: FileIO, offset: int) -> str:
    """Return what tells the bytes before an offset from others."""
    start = max(0, offset - TAGGED)
    return f"{zlib.crc32(part(file, start, offset - start)):08x}"


def part(file: FileIO, start: int, length: int) -> bytes:
    """Return some bytes of a file."""
    file.seek(start)
    return file.read(length) or b""


def record_of(line: bytes) -> dict[str, Metric] | None:
    """Return the record of a line, its numbers all finite or null; None where it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # half a line, or not UTF-8
        return None
    if not isinstance(value, dict) or type(value.get("step")) is not int or not 0 <= value["step"] < EXACT:
        return None
    entries = islice(value.items(), MOST_ENTRIES)
    return {key[:60]: plain(entry) for key, entry in entries if entry is None or type(entry) in (int, float, str)}


def plain(value: object) -> Metric:
    """Return what JSON has a word for and a browser can count with; null for all else."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= EXACT else None
    return value if isinstance(value, float) and math.isfinite(value) else None
