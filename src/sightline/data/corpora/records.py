"""The records of a corpus: texts and labels with the file and line they come from, and the ids of the labels."""

from collections.abc import Iterable, Sequence
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
    def collect(cls, records: Iterable[Record], *, chosen: bool = False) -> "Labels":
        """Collect the labels of a corpus: the last field of each record.

        Labels that look like texts are refused, unless the user has `chosen` the columns.
        """
        names: set[str] = set()
        others: list[set[str]] = []
        n_records = 0
        for record in records:
            *texts, last = record.fields
            names.update((last,) if isinstance(last, str) else last)
            others = others or [set() for _ in texts]
            for values, text in zip(others, texts, strict=True):
                if len(values) <= MAX_LABELS:
                    values.update((text,) if isinstance(text, str) else text)
            n_records += 1
            if len(names) > MAX_LABELS:
                raise InputError(
                    f"{record.location}: more than {MAX_LABELS:,} distinct labels: is this the label column?",
                    setting="data.columns",
                    advice="choose the columns with {}",
                )
        if len(names) < 2:
            raise InputError(f"the only label is {next(iter(names), '')!r}: training needs two or more")
        if not chosen:
            check_labels(names, others, n_records)
        return cls(tuple(sorted(names)))

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: str, location: Location) -> int:
        """Return the id of a label, refusing an unknown one with its location."""
        if name not in self._ids:
            known = ", ".join(self.names[:20]) + (", …" if len(self.names) > 20 else "")
            raise InputError(f"{location}: {unknown_name(name, self.names, what='label')}: the model knows {known}")
        return self._ids[name]


MIN_SUSPECT_LABELS = 20
"""Labels from which their number can be suspicious."""


def check_labels(names: set[str], others: Sequence[set[str]], n_records: int) -> None:
    """Refuse labels that are texts: more of them than of the texts, or nearly one a record and of several words."""
    if len(names) < MIN_SUSPECT_LABELS:
        return
    fewest = min(range(len(others)), key=lambda number: len(others[number]))
    if 2 * len(others[fewest]) <= len(names):
        last = len(others) + 1
        order = [number for number in range(1, last + 1) if number != fewest + 1] + [fewest + 1]
        raise InputError(
            f"{len(names):,} classes: are the columns swapped? Column {fewest + 1} has only "
            f"{len(others[fewest]):,} different values, the last one, which holds the labels, {len(names):,}: fix it",
            setting="data.columns",
            advice=f"set {{}}={','.join(map(str, order))}",
        )
    mean_words = sum(len(name.split()) for name in names) / len(names)
    if 2 * len(names) > n_records and mean_words > MAX_LABEL_WORDS:
        raise InputError(
            f"{len(names):,} classes in {n_records:,} examples, of {mean_words:.0f} words on average: the last "
            "column is no label: fix it",
            setting="data.columns",
            advice="choose the text and the label with {}",
        )


MAX_LABEL_WORDS = 4
"""Mean number of words of a label: more are sentences."""
