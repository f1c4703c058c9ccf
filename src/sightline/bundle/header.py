"""The header of a safetensors file, checked completely before anything else of it is read.

The library's reader would take a key that comes twice, opens the file by name a second time and maps it into memory,
so that a file that shrinks meanwhile ends the process. Writing is the library's.
"""

import math
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sightline.bundle.disguise import real_kind
from sightline.bundle.manifest import check_format, shortened
from sightline.errors import InputError, ModelFileError
from sightline.text.strict_json import parse_object

LENGTH_BYTES = 8
LARGEST = 4 << 20
"""A model of a thousand layers needs about two million bytes."""
FORMAT_KEY = "sightline_format"
ITEM_SIZES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class Stored:
    """One tensor of the file: its type, shape and place among the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """The tensors of a file by name, in the order of their data, which begins at `start`."""

    tensors: dict[str, Stored]
    start: int


def read_header(file: FileIO, path: Path) -> Header:
    """Read and check the header of an open safetensors file."""
    size = os.fstat(file.fileno()).st_size
    beginning = file.read(64) or b""
    if kind := real_kind(beginning):
        raise ModelFileError(path, f"is {kind}")
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    start = LENGTH_BYTES + length
    if len(beginning) < LENGTH_BYTES or start > size or beginning[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
        raise ModelFileError(path, "is not a safetensors file, or only the beginning of one")
    if length > LARGEST:
        raise ModelFileError(path, f"its header has {length:,} bytes; more than {LARGEST:,} are not read")
    file.seek(LENGTH_BYTES)
    try:
        entries = parse_object(file.read(length) or b"")
        check_metadata(entries.pop("__metadata__", {}), path)
        tensors = {name: stored(name, entry) for name, entry in entries.items()}
    except InputError as error:
        raise ModelFileError(path, shortened(f"header: {error}")) from None
    return Header(in_order(tensors, data_size=size - start, path=path), start)


def check_metadata(metadata: object, path: Path) -> None:
    """Refuse a file of a later format; one that names none is judged by its tensors."""
    version = metadata.get(FORMAT_KEY, "1") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version.isdecimal() or len(version) > 9:
        raise InputError(f"the metadata's {FORMAT_KEY} is not a number")
    check_format(int(version), path)


def stored(name: str, entry: object) -> Stored:
    """Return one entry of the header, refusing what does not add up."""
    keys = {"dtype", "shape", "data_offsets"}
    if not isinstance(entry, dict) or set(entry) != keys:
        raise InputError(f"{name[:60]!r} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], whole_numbers(entry["shape"]), whole_numbers(entry["data_offsets"])
    if not isinstance(dtype, str) or dtype not in ITEM_SIZES:
        raise InputError(f"{name[:60]!r} is of type {str(dtype)[:20]}; weights are {', '.join(ITEM_SIZES)}")
    if shape is None or offsets is None or len(offsets) != 2 or len(shape) > 8:
        raise InputError(f"{name[:60]!r} has a shape or offsets that are not lists of whole numbers")
    if offsets[1] - offsets[0] != math.prod(shape) * ITEM_SIZES[dtype]:
        raise InputError(f"the data of {name[:60]!r} is not as large as its shape")
    return Stored(dtype, shape, *offsets)


def whole_numbers(value: object) -> tuple[int, ...] | None:
    """Return a list of numbers from 0 to 2⁶³, or None if it is anything else."""
    if isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value):
        return tuple(value)
    return None


def in_order(tensors: dict[str, Stored], *, data_size: int, path: Path) -> dict[str, Stored]:
    """Return the tensors as their data follow each other, refusing gaps, overlaps, missing and superfluous bytes."""
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)))
    reached = 0
    for name, tensor in ordered.items():
        if tensor.begin != reached:
            raise ModelFileError(path, f"header: the data of {name[:60]!r} does not begin where the one before ends")
        reached = tensor.end
    if reached > data_size:
        raise ModelFileError(path, f"is cut off: {reached - data_size:,} bytes of weights are missing")
    if reached < data_size:
        raise ModelFileError(path, f"has {data_size - reached:,} bytes after its weights that belong to nothing")
    return ordered
