"""Encode records as rows of ids, ready to be stored: one encoder per task.

Rows hold no start, end or padding tokens (a batch adds those), except for the end token of documents in running text.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, runtime_checkable

from sightline.config import unknown_name
from sightline.data.corpora.records import Field, Labels, Record
from sightline.data.datasets.splits import split_key
from sightline.data.tokenizers.tokenizer import Tokenizer
from sightline.errors import InputError, SettingsError

NO_LABEL = -1

CONTINUATION = 0
"""Tag of tokens that continue a word and have no label; tags are stored as label + 1."""


class Row(NamedTuple):
    """An example as ids."""

    sequences: tuple[Sequence[int], ...]
    key: int
    """Split key: examples with the same key stay in the same split."""
    label: int = NO_LABEL
    """Class id; in running text the document number."""


@runtime_checkable
class Encoder(Protocol):
    """Turns records into rows."""

    columns: int
    """Number of sequences per row."""
    largest_id: int
    limits_length: bool
    """Whether `data.max_length` applies: to sentences, not to running text."""

    def identity(self) -> str:
        """Return a hash of everything that determines the rows."""
        ...

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Encode records as rows."""
        ...


class PairEncoder:
    """Sources and targets, with one or two tokenizers.

    With `tags` a record's third field is the target language, and the source begins with the tag of that language.
    """

    columns = 2
    limits_length = True

    def __init__(
        self, source: Tokenizer, target: Tokenizer | None = None, *, tags: Mapping[str, int] | None = None
    ) -> None:
        self._source, self._target = source, target or source
        self._tags = dict(tags or {})
        self.largest_id = max(self._source.vocab_size, self._target.vocab_size) - 1

    def identity(self) -> str:
        """Return a hash of everything that determines the rows."""
        return hash_encoder(f"pairs {sorted(self._tags.items())}", self._source, self._target)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Encode records as rows."""
        sources = self._source.encode_batch([require_text(record.fields[0]) for record in records])
        targets = self._target.encode_batch([require_text(record.fields[1]) for record in records])
        if self._tags:
            sources = [[self._tag(record), *row] for record, row in zip(records, sources, strict=True)]
        keys = [split_key(record.key or require_text(record.fields[0])) for record in records]
        return [Row(row, key) for row, key in zip(zip(sources, targets, strict=True), keys, strict=True)]

    def _tag(self, record: Record) -> int:
        language = require_text(record.fields[2])
        if language not in self._tags:
            known = ", ".join(self._tags)
            raise InputError(
                f"{record.location}: {unknown_name(language, self._tags, what='language')}: data.languages are {known}"
            )
        return self._tags[language]


class TextEncoder:
    """Running text; `append_end` appends the end token to every document."""

    columns = 1
    limits_length = False

    def __init__(self, tokenizer: Tokenizer, *, append_end: bool) -> None:
        self._tokenizer = tokenizer
        self._end = tokenizer.end_id if append_end else None
        if append_end and self._end is None:
            raise SettingsError("this tokenizer has no end token, which every document needs")
        self.largest_id = tokenizer.vocab_size - 1

    def identity(self) -> str:
        """Return a hash of everything that determines the rows."""
        return hash_encoder(f"text {self._end}", self._tokenizer)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Encode records as rows."""
        rows = self._tokenizer.encode_batch([require_text(record.fields[0]) for record in records])
        for row, record in zip(rows, records, strict=True):
            if record.ends and self._end is not None:
                row.append(self._end)
        return [
            Row((row,), split_key(require_text(record.fields[0])), record.document)
            for row, record in zip(rows, records, strict=True)
        ]


class LabeledEncoder:
    """Texts, or pairs of texts, with a label each."""

    limits_length = True

    def __init__(self, tokenizer: Tokenizer, labels: Labels, *, pairs: bool = False) -> None:
        self._tokenizer, self._labels = tokenizer, labels
        self.columns = 2 if pairs else 1
        self.largest_id = tokenizer.vocab_size - 1

    def identity(self) -> str:
        """Return a hash of everything that determines the rows."""
        return hash_encoder(f"labeled {self.columns} {self._labels.names!r}", self._tokenizer)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Encode records as rows."""
        sides = [
            self._tokenizer.encode_batch([require_text(record.fields[column]) for record in records])
            for column in range(self.columns)
        ]
        return [
            Row(
                tuple(row),
                split_key(require_text(record.fields[0])),
                self._labels.id_of(require_text(record.fields[-1]), record.location),
            )
            for record, *row in zip(records, *sides, strict=True)
        ]


class TaggedEncoder:
    """Words with a label each: the second sequence holds the label id + 1 at the first token of every word."""

    columns = 2
    limits_length = True

    def __init__(self, tokenizer: Tokenizer, labels: Labels) -> None:
        self._tokenizer, self._labels = tokenizer, labels
        self.largest_id = max(tokenizer.vocab_size - 1, len(labels))

    def identity(self) -> str:
        """Return a hash of everything that determines the rows."""
        return hash_encoder(f"tagged {self._labels.names!r}", self._tokenizer)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Encode records as rows."""
        return [self._row(record) for record in records]

    def _row(self, record: Record) -> Row:
        words, names = record.fields
        if len(words) != len(names):
            raise InputError(f"{record.location}: {len(words)} words but {len(names)} labels: each word needs one")
        ids: list[int] = []
        tags: list[int] = []
        for pieces, name in zip(self._tokenizer.encode_batch(space_words(words)), names, strict=True):
            tags += [self._labels.id_of(name, record.location) + 1, *[CONTINUATION] * (len(pieces) - 1)][: len(pieces)]
            ids += pieces
        return Row((ids, tags), split_key(" ".join(words)))


def space_words(words: Sequence[str]) -> list[str]:
    """Return words as they are tokenized one by one: each but the first with a leading space, as in running text."""
    return [f" {word}" if number else word for number, word in enumerate(words)]


def require_text(field: Field) -> str:
    """Return a field that must be a text; the corpus guarantees it."""
    if not isinstance(field, str):
        raise TypeError("expected a text, got a list of texts")
    return field


def hash_encoder(kind: str, *tokenizers: Tokenizer) -> str:
    """Return a hash of an encoder."""
    return sha256("\0".join([kind, *(tokenizer.to_json() for tokenizer in tokenizers)]).encode()).hexdigest()
