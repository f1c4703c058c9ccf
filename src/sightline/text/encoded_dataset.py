"""An encoded dataset: a corpus tokenized once, cached in a folder, memory-mapped and reused by later runs.

The cache is content-addressed: its name is a hash of the files, the tokenizer and the settings that shape the examples.
Hashing takes about a second per gigabyte and, unlike modification times, never misses a change. A dataset that is
damaged or of another format is built again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped
from numpy import ndarray

from sightline.errors import InputError
from sightline.settings import to_mapping
from sightline.text.array_store import FORMAT, create_folder, read_folder
from sightline.text.corpus import Corpus
from sightline.text.counts import Counts
from sightline.text.encoding import Encoder, Row
from sightline.text.files import BLOCK, display_path, require_file
from sightline.text.record import Record

MAX_CHUNK_RECORDS, MAX_CHUNK_CHARACTERS = 4_096, 1 << 18
"""Limits of what is encoded at once: the tokenizers library needs about a hundred bytes per character."""

FILES = {"folder", "train", "train_target", "valid", "valid_target"}
"""Settings that name files: their contents are hashed, not their names."""


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
    folder = root / fingerprint(corpus, encoder)
    dataset = read_dataset(folder)
    if dataset is None:
        write_dataset(folder, corpus, encoder)
        for path, before in file_states.items():
            if file_state(path) != before:
                (folder / "index.json").unlink(missing_ok=True)  # invalidates the dataset
                raise InputError(f"{display_path(path)}: this file changed while it was being read: run again")
        dataset = read_dataset(folder)
    if dataset is None:
        raise InputError(f"{folder}: the encoded corpus could not be read back after writing: check the disk")
    return dataset


def read_dataset(folder: Path) -> EncodedDataset | None:
    """Return the dataset in a folder, or None if it is missing or damaged."""
    found = read_folder(folder)
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
    with create_folder(folder, dtypes) as writer:
        writer.append("bounds", [0])
        for records in chunks(corpus.records(counts)):
            rows = list(limit_length(encoder.encode(records), corpus, encoder, counts))
            sequences = [sequence for row in rows for sequence in row.sequences]
            ends = n_ids + np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
            n_ids = int(ends[-1]) if len(ends) else n_ids
            writer.append("ids", np.fromiter(chain.from_iterable(sequences), dtype=np.int64))
            writer.append("bounds", ends)
            writer.append("keys", np.array([row.key for row in rows], dtype=np.uint64))
            writer.append("labels", [row.label for row in rows])
        if not n_ids:
            raise InputError(
                f"{' and '.join(map(display_path, corpus.files))}: every example is longer than max_length = "
                f"{corpus.settings.max_length}: raise data.max_length, or set data.too_long to truncate"
            )
        writer.finish({"columns": encoder.columns, "counts": counts.to_mapping()})


def chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
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


def fingerprint(corpus: Corpus, encoder: Encoder) -> str:
    """Return the name of the cache folder of an encoded corpus."""
    settings = {name: value for name, value in to_mapping(corpus.settings).items() if name not in FILES}
    facts = {
        "format": FORMAT,
        "files": [content_hash(path) for path in corpus.files],
        "read as": [corpus.format, *corpus.fields, corpus.unit],
        "settings": settings,
        "encoder": encoder.identity(),
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def content_hash(path: Path) -> str:
    """Return a hash of a file's bytes."""
    require_file(path)
    digest = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{display_path(path)}: cannot read this file: {error.strerror or error}") from None
    return digest.hexdigest()


def file_state(path: Path) -> tuple[int, int]:
    """Return size and modification time, which change when a file does."""
    require_file(path)
    found = path.stat()
    return found.st_size, found.st_mtime_ns
