"""The records of a corpus: texts and labels with the file and line they come from, and the ids of the labels."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sightline.config import unknown_name
from sightline.data.corpora.files import Location
from sightline.errors import InputError

Field = str | tuple[str, ...]
"""A text, or a list of them: the turns of a dialogue, the words of a tagged sentence."""


class Record(NamedTuple):
    """One line, document or chunk of a corpus."""

    fields: tuple[Field, ...]
    location: Location
    document: int = 0
    """Document number in running text, from 0."""
    ends: bool = True
    """Whether this is the last record of its document."""
    key: str | None = None
    """Split key, if not the first field."""
    raw: str = ""
    """The row as it stands in a TSV, CSV or JSON Lines file."""


SOURCE_AND_TARGET = ("source", "target")
SOURCE_TARGET_LANGUAGE = ("source", "target", "language")
TEXT = ("text",)
TEXT_AND_LABEL = ("text", "label")
PAIR_AND_LABEL = ("text", "pair", "label")
TOKENS_AND_LABELS = ("tokens", "labels")
TURNS = ("turns",)

LISTS = frozenset({"tokens", "labels", "turns"})
"""Fields that are lists of texts."""
NOT_TEXT = frozenset({"label", "labels", "language"})
"""Fields that are not tokenized."""


MAX_LABELS = 10_000
"""More distinct labels than this are probably texts in the wrong column."""


@dataclass(frozen=True)
class Labels:
    """The classes of a classifier, by id."""

    names: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {name: id_ for id_, name in enumerate(self.names)})

    @classmethod
    def collect(cls, records: Iterable[Record]) -> "Labels":
        """Collect the labels of a corpus: the last field of each record."""
        names: set[str] = set()
        for record in records:
            last = record.fields[-1]
            names.update((last,) if isinstance(last, str) else last)
            if len(names) > MAX_LABELS:
                raise InputError(
                    f"{record.location}: more than {MAX_LABELS:,} distinct labels: is this the label column?"
                )
        if len(names) < 2:
            raise InputError(f"the only label is {next(iter(names), '')!r}: training needs two or more")
        return cls(tuple(sorted(names)))

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: str, location: Location) -> int:
        """Return the id of a label, refusing an unknown one with its location."""
        if name not in self._ids:
            known = ", ".join(self.names[:20]) + (", …" if len(self.names) > 20 else "")
            raise InputError(f"{location}: {unknown_name(name, self.names, what='label')}: the model knows {known}")
        return self._ids[name]
