"""The header of a safetensors file, checked before any weight is read; without torch.

The library's own reader accepts duplicate keys, reopens the file by name and memory-maps it, so that a file that
shrinks meanwhile crashes the process.
"""

import math
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sightline.bundle.manifest import check_format, shorten
from sightline.bundle.migration import migrate_weight
from sightline.errors import InputError, ModelFileError
from sightline.storage import parse_object, sniff

FORMAT_KEY = "sightline_format"

ITEM_SIZES = {"F32": 4, "F16": 2, "BF16": 2}
"""Bytes of one number of each supported type, by their names in the header."""

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 4 << 20
"""A model with a thousand layers needs about two million bytes."""


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of the file: its type, shape and data offsets."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """The tensors of a file by name, in the order of their data, which starts at byte `start`."""

    tensors: dict[str, TensorInfo]
    start: int


def read_header(file: FileIO, path: Path) -> Header:
    """Read and check the header of an open safetensors file."""
    size = os.fstat(file.fileno()).st_size
    beginning = file.read(64) or b""
    if kind := sniff(beginning):
        raise ModelFileError(path, f"is {kind}")
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    start = LENGTH_BYTES + length
    if len(beginning) < LENGTH_BYTES or start > size or beginning[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
        raise ModelFileError(path, "is not a safetensors file, or is truncated")
    if length > MAX_HEADER_BYTES:
        raise ModelFileError(path, f"its header has {length:,} bytes; the maximum is {MAX_HEADER_BYTES:,}")
    file.seek(LENGTH_BYTES)
    try:
        entries = parse_object(file.read(length) or b"")
        version = read_format(entries.pop("__metadata__", {}), path)
        new_name = migrate_weight if version == 1 else str
        tensors = {new_name(name): parse_tensor_info(name, entry) for name, entry in entries.items()}
    except InputError as error:
        raise ModelFileError(path, shorten(f"header: {error}")) from None
    return Header(sort_by_offset(tensors, data_size=size - start, path=path), start)


def read_format(metadata: object, path: Path) -> int:
    """Return the format version of a file, refusing a newer one; a file without one counts as version 1."""
    version = metadata.get(FORMAT_KEY, "1") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version.isdecimal() or len(version) > 9:
        raise InputError(f"the metadata's {FORMAT_KEY} is not a number")
    check_format(int(version), path)
    return int(version)


def parse_tensor_info(name: str, entry: object) -> TensorInfo:
    """Parse one entry of the header, refusing inconsistent ones."""
    keys = {"dtype", "shape", "data_offsets"}
    if not isinstance(entry, dict) or set(entry) != keys:
        raise InputError(f"{name[:60]!r} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], parse_integers(entry["shape"]), parse_integers(entry["data_offsets"])
    if not isinstance(dtype, str) or dtype not in ITEM_SIZES:
        raise InputError(f"{name[:60]!r} is of type {str(dtype)[:20]}; supported are {', '.join(ITEM_SIZES)}")
    if shape is None or offsets is None or len(offsets) != 2 or len(shape) > 8:
        raise InputError(f"{name[:60]!r} has a shape or offsets that are not lists of whole numbers")
    if offsets[1] - offsets[0] != math.prod(shape) * ITEM_SIZES[dtype]:
        raise InputError(f"the data size of {name[:60]!r} does not match its shape")
    return TensorInfo(dtype, shape, *offsets)


def parse_integers(value: object) -> tuple[int, ...] | None:
    """Return a list of integers from 0 to 2⁶³, or None if it is anything else."""
    if isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value):
        return tuple(value)
    return None


def sort_by_offset(tensors: dict[str, TensorInfo], *, data_size: int, path: Path) -> dict[str, TensorInfo]:
    """Return the tensors in the order of their data, refusing gaps, overlaps, missing and extra bytes."""
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)))
    reached = 0
    for name, tensor in ordered.items():
        if tensor.begin != reached:
            raise ModelFileError(
                path, f"header: the data of {name[:60]!r} does not start where the previous tensor ends"
            )
        reached = tensor.end
    if reached > data_size:
        raise ModelFileError(path, f"is truncated: {reached - data_size:,} bytes of weights are missing")
    if reached < data_size:
        raise ModelFileError(path, f"has {data_size - reached:,} extra bytes after its weights")
    return ordered
