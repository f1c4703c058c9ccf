"""Records as rows of ids, ready to be stored: one encoder for each kind of example.

Rows hold no start, end or padding (a batch adds those), but for the end of a document in running text.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, runtime_checkable

from sightline.errors import InputError, SettingsError
from sightline.settings import unknown_name
from sightline.text.labels import Labels
from sightline.text.record import Field, Record
from sightline.text.split import key_of
from sightline.text.tokenizer import Tokenizer

NO_LABEL = -1

CONTINUED = 0
"""Stands at tokens that have no tag because they go on with a word; tags are stored one higher."""


class Row(NamedTuple):
    """An example as ids."""

    sequences: tuple[Sequence[int], ...]
    key: int
    """What decides its side of a split."""
    label: int = NO_LABEL
    """Its class; in running text its document."""


@runtime_checkable
class Encoder(Protocol):
    """Turns records into rows."""

    columns: int
    """Sequences in a row."""
    largest_id: int
    bounded: bool
    """Whether a longest length applies: to sentences, not to running text."""

    def identity(self) -> str:
        """Return what differs whenever the rows of a record would."""
        ...

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Return the rows of some records."""
        ...


class PairEncoder:
    """Sources and targets, by one tokenizer or by two.

    With `tags` a record's third field is the language of its target, and the source begins with that language's tag.
    """

    columns = 2
    bounded = True

    def __init__(
        self, source: Tokenizer, target: Tokenizer | None = None, *, tags: Mapping[str, int] | None = None
    ) -> None:
        self._source, self._target = source, target or source
        self._tags = dict(tags or {})
        self.largest_id = max(self._source.vocab_size, self._target.vocab_size) - 1

    def identity(self) -> str:
        """Return what differs whenever the rows of a record would."""
        return identity(f"pairs {sorted(self._tags.items())}", self._source, self._target)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Return the rows of some records."""
        sources = self._source.encode_batch([text(record.fields[0]) for record in records])
        targets = self._target.encode_batch([text(record.fields[1]) for record in records])
        if self._tags:
            sources = [[self._tag(record), *row] for record, row in zip(records, sources, strict=True)]
        keys = [key_of(record.key or text(record.fields[0])) for record in records]
        return [Row(row, key) for row, key in zip(zip(sources, targets, strict=True), keys, strict=True)]

    def _tag(self, record: Record) -> int:
        language = text(record.fields[2])
        if language not in self._tags:
            known = ", ".join(self._tags)
            raise InputError(
                f"{record.place}: {unknown_name(language, self._tags, what='language')}: data.languages are {known}"
            )
        return self._tags[language]


class TextEncoder:
    """Running text; `with_ends` puts the end token behind every document."""

    columns = 1
    bounded = False

    def __init__(self, tokenizer: Tokenizer, *, with_ends: bool) -> None:
        self._tokenizer = tokenizer
        self._end = tokenizer.end_id if with_ends else None
        if with_ends and self._end is None:
            raise SettingsError("this tokenizer has no end token, which has to stand behind every document")
        self.largest_id = tokenizer.vocab_size - 1

    def identity(self) -> str:
        """Return what differs whenever the rows of a record would."""
        return identity(f"text {self._end}", self._tokenizer)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Return the rows of some records."""
        rows = self._tokenizer.encode_batch([text(record.fields[0]) for record in records])
        for row, record in zip(rows, records, strict=True):
            if record.ends and self._end is not None:
                row.append(self._end)
        return [
            Row((row,), key_of(text(record.fields[0])), record.document)
            for row, record in zip(rows, records, strict=True)
        ]


class LabelledEncoder:
    """Texts, or pairs of texts, with a label."""

    bounded = True

    def __init__(self, tokenizer: Tokenizer, labels: Labels, *, pairs: bool = False) -> None:
        self._tokenizer, self._labels = tokenizer, labels
        self.columns = 2 if pairs else 1
        self.largest_id = tokenizer.vocab_size - 1

    def identity(self) -> str:
        """Return what differs whenever the rows of a record would."""
        return identity(f"labelled {self.columns} {self._labels.names!r}", self._tokenizer)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Return the rows of some records."""
        sides = [
            self._tokenizer.encode_batch([text(record.fields[column]) for record in records])
            for column in range(self.columns)
        ]
        return [
            Row(tuple(row), key_of(text(record.fields[0])), self._labels.id_of(text(record.fields[-1]), record.place))
            for record, *row in zip(records, *sides, strict=True)
        ]


class TaggedEncoder:
    """Words with a label each: a second sequence holds one more than the label's id at the first token of a word."""

    columns = 2
    bounded = True

    def __init__(self, tokenizer: Tokenizer, labels: Labels) -> None:
        self._tokenizer, self._labels = tokenizer, labels
        self.largest_id = max(tokenizer.vocab_size - 1, len(labels))

    def identity(self) -> str:
        """Return what differs whenever the rows of a record would."""
        return identity(f"tagged {self._labels.names!r}", self._tokenizer)

    def encode(self, records: Sequence[Record]) -> list[Row]:
        """Return the rows of some records."""
        return [self._row(record) for record in records]

    def _row(self, record: Record) -> Row:
        words, names = record.fields
        if len(words) != len(names):
            raise InputError(f"{record.place}: {len(words)} words have {len(names)} labels: each needs one")
        ids: list[int] = []
        tags: list[int] = []
        for pieces, name in zip(self._tokenizer.encode_batch(spaced(words)), names, strict=True):
            tags += [self._labels.id_of(name, record.place) + 1, *[CONTINUED] * (len(pieces) - 1)][: len(pieces)]
            ids += pieces
        return Row((ids, tags), key_of(" ".join(words)))


def spaced(words: Sequence[str]) -> list[str]:
    """Return words as they are spelled one by one: each but the first brings its blank along, as in running text."""
    return [f" {word}" if number else word for number, word in enumerate(words)]


def text(field: Field) -> str:
    """Return a field that is a text; the corpus was made so."""
    if not isinstance(field, str):
        raise TypeError("a list of texts stands where one text is needed")
    return field


def identity(kind: str, *tokenizers: Tokenizer) -> str:
    """Return a fingerprint of an encoder."""
    return sha256("\0".join([kind, *(tokenizer.to_json() for tokenizer in tokenizers)]).encode()).hexdigest()
