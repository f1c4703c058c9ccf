"""Read metrics.jsonl incrementally while a run may be writing it: the records since an offset, and the next offset.

A response has the offset after its last complete line and a checksum (`tag`) of the bytes before it. A run that resumes
from a checkpoint truncates its file: then the tag no longer matches, and the file is sent from the beginning.
"""

import json
import math
import zlib
from io import FileIO
from itertools import islice
from pathlib import Path

from sightline.errors import ModelFileError
from sightline.storage import open_regular
from sightline.training.state import Metric

MAX_BYTES = 2 << 20
"""Per response; `more` says that there is more to fetch."""
MAX_FILE_BYTES = 32 << 20
"""Of a larger file, only the end is sent."""
TAG_BYTES = 256
MAX_ENTRIES = 60
MAX_TEXT = 2_000
MAX_SAFE_INTEGER = 1 << 53


def read_since(path: Path, since: int, tag: str) -> dict[str, object]:
    """Return the records after an offset; `reset` says that earlier ones are no longer valid."""
    try:
        file = open_regular(path)
    except ModelFileError:  # a link or a pipe
        file = None
    if file is None:
        return {"records": [], "next": 0, "tag": "", "reset": since > 0, "more": False}
    with file:
        size = file.seek(0, 2)
        matches = 0 < since <= size and tag_at(file, since) == tag
        start = since if matches else max(0, size - MAX_FILE_BYTES)
        data = read_bytes(file, start, MAX_BYTES)
        complete = data.rfind(b"\n") + 1
        if not complete and len(data) == MAX_BYTES:
            complete = len(data)  # no valid line is that long: skip it
        end = start + complete
        records = [record for line in data[:complete].splitlines() if (record := parse_record(line)) is not None]
        more = len(data) == MAX_BYTES
        return {
            "records": records,
            "next": end,
            "tag": tag_at(file, end),
            "reset": since > 0 and not matches,
            "more": more,
        }


def tag_at(file: FileIO, offset: int) -> str:
    """Return a checksum of the bytes before an offset."""
    start = max(0, offset - TAG_BYTES)
    return f"{zlib.crc32(read_bytes(file, start, offset - start)):08x}"


def read_bytes(file: FileIO, start: int, length: int) -> bytes:
    """Return a slice of a file."""
    file.seek(start)
    return file.read(length) or b""


def parse_record(line: bytes) -> dict[str, Metric] | None:
    """Parse a line; numbers that are not finite become null. Return None if it is no record."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # an incomplete line, or not UTF-8
        return None
    if not isinstance(value, dict) or type(value.get("step")) is not int or not 0 <= value["step"] < MAX_SAFE_INTEGER:
        return None
    entries = islice(value.items(), MAX_ENTRIES)
    return {key[:60]: json_value(entry) for key, entry in entries if entry is None or type(entry) in (int, float, str)}


def json_value(value: object) -> Metric:
    """Return a value that JSON and JavaScript can represent; None for any other."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= MAX_SAFE_INTEGER else None
    return value if isinstance(value, float) and math.isfinite(value) else None
