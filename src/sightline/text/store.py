"""A corpus encoded once, kept in a folder, mapped into memory and found again on the next run.

It is found by content: its name is a fingerprint of the bytes of the files, of the tokenizer and of the settings that
shape the examples. Reading the files for that takes about a second a gigabyte and, unlike their dates, never lies. A
store that is damaged or of another format is made anew.
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
from sightline.text.corpus import Corpus
from sightline.text.counts import Counts
from sightline.text.encoding import Encoder, Row
from sightline.text.files import BLOCK, require_file, shown_path
from sightline.text.record import Record
from sightline.text.shelf import FORMAT, new_folder, read_folder

MOST_RECORDS, MOST_CHARACTERS = 4_096, 1 << 18
"""What is encoded at once: the library needs about a hundred bytes a character."""

FILES = {"folder", "train", "train_target", "valid", "valid_target"}
"""Settings that name files; their contents count, not their names."""


@dataclass(frozen=True)
class Store:
    """Encoded examples: a row of one or two sequences each, with its key and its label."""

    ids: Shaped[ndarray, " tokens"]
    bounds: Int[ndarray, " n_sequences_and_one"]
    """Where each sequence begins, and where the last one ends."""
    keys: Shaped[ndarray, " n"]
    labels: Int[ndarray, " n"]
    columns: int
    counts: Counts

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def lengths(self) -> Int[ndarray, "n columns"]:
        """How many ids each sequence has."""
        return np.diff(self.bounds).reshape(-1, self.columns)

    def sequence(self, example: int, column: int = 0) -> Int[ndarray, " length"]:
        """Return one sequence of an example."""
        at = example * self.columns + column
        return np.asarray(self.ids[self.bounds[at] : self.bounds[at + 1]], dtype=np.int64)

    def sequences(self, examples: Int[ndarray, " some"], column: int = 0) -> list[Int[ndarray, "..."]]:
        """Return one sequence of each of some examples."""
        return [self.sequence(example, column) for example in examples.tolist()]


def open_store(root: Path, corpus: Corpus, encoder: Encoder) -> Store:
    """Return the encoded corpus, from a folder in `root` if it is there, else made now and kept there."""
    files = {path: state(path) for path in corpus.files}
    folder = root / fingerprint(corpus, encoder)
    store = read_store(folder)
    if store is None:
        write_store(folder, corpus, encoder)
        for path, before in files.items():
            if state(path) != before:
                (folder / "index.json").unlink(missing_ok=True)  # not a store any more
                raise InputError(f"{shown_path(path)}: this file changed while it was being read: start again")
        store = read_store(folder)
    if store is None:
        raise InputError(f"{folder}: the encoded corpus does not read back as it was written: is the disk sound?")
    return store


def read_store(folder: Path) -> Store | None:
    """Return the store in a folder, or None if there is none that is whole."""
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
    return Store(arrays["ids"], bounds, arrays["keys"], arrays["labels"], columns, Counts(counts))


def write_store(folder: Path, corpus: Corpus, encoder: Encoder) -> None:
    """Encode a corpus into a folder, a chunk at a time."""
    counts = Counts()
    kind = "<u2" if encoder.largest_id < 1 << 16 else "<u4"
    kinds = {"ids": kind, "bounds": "<i8", "keys": "<u8", "labels": "<i8"}
    n_ids = 0
    with new_folder(folder, kinds) as writer:
        writer.append("bounds", [0])
        for records in chunks(corpus.records(counts)):
            rows = list(bounded(encoder.encode(records), corpus, encoder, counts))
            sequences = [sequence for row in rows for sequence in row.sequences]
            ends = n_ids + np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
            n_ids = int(ends[-1]) if len(ends) else n_ids
            writer.append("ids", np.fromiter(chain.from_iterable(sequences), dtype=np.int64))
            writer.append("bounds", ends)
            writer.append("keys", np.array([row.key for row in rows], dtype=np.uint64))
            writer.append("labels", [row.label for row in rows])
        if not n_ids:
            raise InputError(
                f"{' and '.join(map(shown_path, corpus.files))}: every example is longer than max_length = "
                f"{corpus.settings.max_length}: raise data.max_length, or set data.on_long to cut"
            )
        writer.finish({"columns": encoder.columns, "counts": counts.to_mapping()})


def chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Gather records until there are enough of them, or of their characters, to encode."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += sum(len(field) if isinstance(field, str) else sum(map(len, field)) for field in record.fields)
        if len(chunk) >= MOST_RECORDS or size >= MOST_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def bounded(rows: Sequence[Row], corpus: Corpus, encoder: Encoder, counts: Counts) -> Iterator[Row]:
    """Skip or cut what is longer than the settings allow."""
    longest = corpus.settings.max_length
    for row in rows:
        if not encoder.bounded or all(len(sequence) <= longest for sequence in row.sequences):
            yield row
        elif corpus.settings.on_long == "cut":
            counts.add("long_cut")
            yield row._replace(sequences=tuple(sequence[:longest] for sequence in row.sequences))
        else:
            counts.add("long_skipped")


def fingerprint(corpus: Corpus, encoder: Encoder) -> str:
    """Return the name under which an encoded corpus is found again."""
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
    """Return a fingerprint of a file's bytes."""
    require_file(path)
    digest = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{shown_path(path)}: this file cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()


def state(path: Path) -> tuple[int, int]:
    """Return what changes when a file does."""
    require_file(path)
    found = path.stat()
    return found.st_size, found.st_mtime_ns
