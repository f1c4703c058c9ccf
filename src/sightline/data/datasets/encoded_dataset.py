"""An encoded dataset: a corpus tokenized once, cached in a folder, memory-mapped and reused by later runs.

The cache is content-addressed: its name is a hash of the files, the tokenizer and the settings that shape the examples.
Its folder holds one file per array and `index.json`, and is replaced atomically, so it is either complete or absent. A
dataset that is damaged or of another format is built again.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Int, Shaped
from numpy import ndarray
from numpy.typing import NDArray

from sightline.config import to_mapping
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import BLOCK_BYTES, Counts, display_path, file_state, require_file
from sightline.data.corpora.records import Record
from sightline.data.corpora.settings import SPLIT_SETTINGS, DataSettings
from sightline.data.datasets.encoding import Encoder, Row
from sightline.errors import InputError, SightlineError
from sightline.storage import parse_object, replace_folder

FORMAT = 2
INDEX = "index.json"


@dataclass(frozen=True)
class EncodedDataset:
    """Encoded examples: one or two sequences each, with a split key and a label."""

    ids: Shaped[ndarray, " tokens"]
    bounds: Int[ndarray, " n_sequences_and_one"]
    """Where each sequence starts, and where the last one ends."""
    keys: Shaped[ndarray, " n"]
    labels: Int[ndarray, " n"]
    columns: int
    counts: Counts

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def lengths(self) -> Int[ndarray, "n columns"]:
        """Number of ids in each sequence."""
        return np.diff(self.bounds).reshape(-1, self.columns)

    def sequence(self, example: int, column: int = 0) -> Int[ndarray, " length"]:
        """Return one sequence of an example."""
        at = example * self.columns + column
        return np.asarray(self.ids[self.bounds[at] : self.bounds[at + 1]], dtype=np.int64)

    def sequences(self, examples: Int[ndarray, " some"], column: int = 0) -> list[Int[ndarray, "..."]]:
        """Return one sequence of each of the examples."""
        return [self.sequence(example, column) for example in examples.tolist()]


def open_dataset(root: Path, corpus: Corpus, encoder: Encoder) -> EncodedDataset:
    """Return the encoded corpus, from its cache folder in `root`, which is written first if needed."""
    file_states = {path: file_state(path) for path in corpus.files}
    folder = root / name_cache_folder(corpus, encoder)
    dataset = read_dataset(folder)
    if dataset is None:
        write_dataset(folder, corpus, encoder)
        for path, before in file_states.items():
            if file_state(path) != before:
                (folder / INDEX).unlink(missing_ok=True)  # invalidates the dataset
                raise InputError(f"{display_path(path)}: this file changed while it was being read: run again")
        dataset = read_dataset(folder)
    if dataset is None:
        raise InputError(f"{folder}: the encoded corpus could not be read back after writing: check the disk")
    return dataset


FILE_SETTINGS = {"folder", "train", "train_target", "valid", "valid_target"}
"""Settings that name files: their contents are hashed, not their names."""
UNREAD_SETTINGS = {"source_language", "target_language"}
"""Settings that change nothing in how a corpus is read."""


def reading_settings(data: DataSettings) -> dict[str, object]:
    """Return the settings that decide what is read from given files."""
    left_out = FILE_SETTINGS | SPLIT_SETTINGS | UNREAD_SETTINGS
    return {name: value for name, value in to_mapping(data).items() if name not in left_out}


def name_cache_folder(corpus: Corpus, encoder: Encoder) -> str:
    """Return the name of the cache folder of an encoded corpus."""
    facts = {
        "format": FORMAT,
        "files": [content_hash(path) for path in corpus.files],
        "read as": [corpus.format, *corpus.fields, corpus.unit],
        "settings": reading_settings(corpus.settings),
        "encoder": encoder.identity(),
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def content_hash(path: Path, *more: Path) -> str:
    """Return a hash of a file's bytes, or one of several files in their order.

    It takes about a second per gigabyte and, unlike modification times, never misses a change.
    """
    if more:
        return sha256(" ".join(map(content_hash, (path, *more))).encode()).hexdigest()
    require_file(path)
    digest = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{display_path(path)}: cannot read this file: {error.strerror or error}") from None
    return digest.hexdigest()


def read_dataset(folder: Path) -> EncodedDataset | None:
    """Return the dataset in a folder, or None if it is missing or damaged."""
    found = read_array_folder(folder)
    if found is None:
        return None
    arrays, facts = found
    columns, counts = facts.get("columns"), facts.get("counts")
    if not isinstance(columns, int) or not isinstance(counts, dict):
        return None
    bounds = arrays["bounds"]
    if len(bounds) != columns * len(arrays["keys"]) + 1:
        return None
    return EncodedDataset(arrays["ids"], bounds, arrays["keys"], arrays["labels"], columns, Counts(counts))


def write_dataset(folder: Path, corpus: Corpus, encoder: Encoder) -> None:
    """Encode a corpus into a folder, chunk by chunk."""
    counts = Counts()
    id_dtype = "<u2" if encoder.largest_id < 1 << 16 else "<u4"
    dtypes = {"ids": id_dtype, "bounds": "<i8", "keys": "<u8", "labels": "<i8"}
    n_ids = 0
    with create_array_folder(folder, dtypes) as writer:
        writer.append("bounds", [0])
        for encoded in encode_chunks(chunk_records(corpus.records(counts)), encoder):
            rows = list(limit_length(encoded, corpus, encoder, counts))
            sequences = [sequence for row in rows for sequence in row.sequences]
            ends = n_ids + np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
            n_ids = int(ends[-1]) if len(ends) else n_ids
            writer.append("ids", np.fromiter(chain.from_iterable(sequences), dtype=np.int64))
            writer.append("bounds", ends)
            writer.append("keys", np.array([row.key for row in rows], dtype=np.uint64))
            writer.append("labels", [row.label for row in rows])
        if not n_ids:
            raise InputError(
                f"{corpus.name}: every example is longer than max_length = "
                f"{corpus.settings.max_length}: raise data.max_length, or set data.too_long to truncate"
            )
        writer.finish({"columns": encoder.columns, "counts": counts.to_mapping()})


def encode_chunks(chunks: Iterator[list[Record]], encoder: Encoder) -> Iterator[list[Row]]:
    """Encode chunk after chunk, in order; while the tokenizer's threads encode one, the next is read."""
    with ThreadPoolExecutor(1) as executor:
        pending: Future[list[Row]] | None = None
        for chunk in chunks:
            following = executor.submit(encoder.encode, chunk)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()


MAX_CHUNK_RECORDS, MAX_CHUNK_CHARACTERS = 4_096, 1 << 18
"""Limits of what is encoded at once: the tokenizers library needs about a hundred bytes per character."""


def chunk_records(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Group records into chunks to encode at once."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += sum(len(field) if isinstance(field, str) else sum(map(len, field)) for field in record.fields)
        if len(chunk) >= MAX_CHUNK_RECORDS or size >= MAX_CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def limit_length(rows: Sequence[Row], corpus: Corpus, encoder: Encoder, counts: Counts) -> Iterator[Row]:
    """Drop or truncate rows longer than `data.max_length`."""
    max_length = corpus.settings.max_length
    for row in rows:
        if not encoder.limits_length or all(len(sequence) <= max_length for sequence in row.sequences):
            yield row
        elif corpus.settings.too_long == "truncate":
            counts.add("long_cut")
            yield row._replace(sequences=tuple(sequence[:max_length] for sequence in row.sequences))
        else:
            counts.add("long_skipped")


class ArrayWriter:
    """Appends to the arrays of a new folder."""

    def __init__(self, folder: Path, dtypes: Mapping[str, str]) -> None:
        self._folder, self._dtypes = folder, dtypes
        self._files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in dtypes}
        self._checksums = dict.fromkeys(dtypes, 0)

    def append(self, name: str, numbers: Sequence[int] | NDArray[np.integer]) -> None:
        """Append numbers to an array."""
        data = np.asarray(numbers, dtype=self._dtypes[name]).tobytes()
        self._checksums[name] = zlib.crc32(data, self._checksums[name])
        self._files[name].write(data)

    def finish(self, facts: Mapping[str, object]) -> None:
        """Write the index, which completes the folder."""
        arrays = {
            name: {"kind": self._dtypes[name], "bytes": file.tell(), "crc32": self._checksums[name]}
            for name, file in self._files.items()
        }
        index = json.dumps({"format": FORMAT, "arrays": arrays, "facts": facts}, indent=1)
        (self._folder / INDEX).write_bytes(index.encode("utf-8"))

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


@contextmanager
def create_array_folder(folder: Path, dtypes: Mapping[str, str]) -> Iterator[ArrayWriter]:
    """Yield a writer for a folder that replaces the existing one once all is written."""
    try:
        with replace_folder(folder, shared=True) as new:  # another process may be encoding the same corpus
            writer = ArrayWriter(new, dtypes)
            try:
                yield writer
            finally:
                writer.close()
    except OSError as error:
        raise SightlineError(
            f"{folder.parent}: the encoded corpus cannot be written there: {error.strerror or error}"
        ) from None


def read_array_folder(folder: Path) -> tuple[dict[str, NDArray[np.integer]], dict[str, object]] | None:
    """Return the arrays and facts of a folder, or None if it is missing, damaged or of another format."""
    try:
        index = parse_object((folder / INDEX).read_bytes())
        arrays, facts = index["arrays"], index["facts"]
        if index["format"] != FORMAT or not isinstance(arrays, dict) or not isinstance(facts, dict):
            return None
        return {name: map_array(folder / name, **entry) for name, entry in arrays.items()}, facts
    except (OSError, InputError, KeyError, TypeError, ValueError):
        return None


def map_array(path: Path, *, kind: str, bytes: int, crc32: int) -> NDArray[np.integer]:  # noqa: A002
    """Memory-map an array after verifying its size and checksum; only what is used is then read."""
    checksum = size = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
            size += len(block)
    if (size, checksum) != (bytes, crc32):
        raise ValueError("the size or checksum does not match the index")
    return np.memmap(path, dtype=kind, mode="r") if size else np.zeros(0, dtype=kind)
