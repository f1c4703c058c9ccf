"""Held-out data, what a model is scored on: read by the corpus readers, whose refusals are put in terms of our options.

Knows no model. A test set is in memory as a whole, for its score is that of all of it.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sightline.errors import InputError, RefusedError, SettingsError

if TYPE_CHECKING:
    from sightline.text.data import Format
    from sightline.text.documents import Documents, Unit
    from sightline.text.labels import Labels
    from sightline.text.record import Field, Record

WORDING = {
    ", or set data.on_bad_utf8 to replace or skip": "",
    " (or say so with data.format)": "",
    "data.columns": "--columns",
    "(source, target, language)": "(source, target, language; or give --to)",
    "there is nothing to learn from": "there is nothing to score",
}
"""What the readers say to someone who trains, and what that is here."""

WRITTEN = ("--source", "--tsv")
SUITS = {
    "--columns": ("--tsv", "--dialogues", "--labeled"),
    "--pair": ("--labeled",),
    "--documents": ("--text",),
    "--context": ("--text",),
    **dict.fromkeys(("--to", "--from", "--beam", "--length-penalty", "--tokenize"), WRITTEN),
}
"""Options that are about some test sets only: with others they would do nothing, and nobody would notice."""


@dataclass(frozen=True)
class HeldOut:
    """Which files, and how they are read."""

    option: str
    """What was given: --source, --tsv, --text, --dialogues or --labeled."""
    path: Path
    target: Path | None
    columns: tuple[str, ...]
    pair: bool
    limit: int | None

    @classmethod
    def of(
        cls,
        files: Mapping[str, Path | None],
        *,
        columns: tuple[str, ...],
        pair: bool,
        limit: int | None,
        others: Mapping[str, object] = MappingProxyType({}),
    ) -> "HeldOut":
        """Return the one test set that the options name; `others` are options that must suit it."""
        given = [(option, path) for option, path in files.items() if path is not None and option != "--target"]
        target = files.get("--target")
        if len(given) != 1:
            raise RefusedError(
                "give one test set: --source F --target F, --tsv F, --text F, --dialogues F or --labeled F"
            )
        [(option, path)] = given
        if (target is not None) != (option == "--source"):
            raise RefusedError("--source and --target come together: the same lines in two languages")
        for name, value in {"--columns": columns or None, "--pair": pair or None, **others}.items():
            if value is not None and option not in SUITS[name]:
                raise RefusedError(f"{name} is for {together(SUITS[name])}, not for {option}")
        return cls(option, path, target, columns, pair, limit)

    @property
    def is_table(self) -> bool:
        """Whether a third column may name the language of each line."""
        return self.option == "--tsv"

    def pairs(self, *, named: bool) -> list[tuple[str, ...]]:
        """Return sources and targets, and if `named` the language of each."""
        from sightline.text.record import SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE

        fields = SOURCE_TARGET_LANGUAGE if named else SOURCE_AND_TARGET
        with self._records(fields) as records:
            return [tuple(map(str, record.fields)) for record in islice(records, self.limit)]

    def documents(self, *, ended_by: "Documents" = "blank") -> list[str]:
        """Return the documents of a running text, each in one piece."""
        from sightline.text.record import TEXT

        with self._records(TEXT, documents=ended_by) as records:
            parts = groupby(records, key=lambda record: record.document)
            texts = ("".join(str(record.fields[0]) for record in document) for _, document in parts)
            return list(islice(texts, self.limit))

    def lines(self) -> list[str]:
        """Return the lines of a text."""
        from sightline.text.record import TEXT

        with self._records(TEXT, unit="line") as records:
            return [str(record.fields[0]) for record in islice(records, self.limit)]

    def exchanges(self, *, history: int) -> list[tuple[str, str]]:
        """Return every reply of some dialogues behind the last so many turns before it, a line each."""
        from sightline.text.record import TURNS

        with self._records(TURNS, history=history) as records:
            return [(str(record.fields[0]), str(record.fields[1])) for record in islice(records, self.limit)]

    def labeled(self, names: Sequence[str], *, per_word: bool) -> "list[tuple[Field | tuple[str, str], Field]]":
        """Return texts, or pairs of them, or words, and their labels; unknown ones are refused with their place."""
        from sightline.text.labels import Labels
        from sightline.text.record import PAIR_AND_LABEL, TEXT_AND_LABEL, TOKENS_AND_LABELS

        if per_word and self.pair:
            raise RefusedError("this model classifies words, not pairs of texts: leave --pair out")
        labels = Labels(tuple(names))
        with self._records(
            TOKENS_AND_LABELS if per_word else PAIR_AND_LABEL if self.pair else TEXT_AND_LABEL
        ) as records:
            return [example(record, labels) for record in islice(records, self.limit)]

    @contextmanager
    def _records(
        self,
        fields: tuple[str, ...],
        *,
        unit: "Unit" = "piece",
        history: int = 1,
        documents: "Documents" = "blank",
    ) -> "Iterator[Iterator[Record]]":
        """Read the files; what was unusual is counted, and said on stderr when all is read."""
        from sightline.text.corpus import Corpus
        from sightline.text.counts import Counts
        from sightline.text.data import DataSettings

        counts = Counts()
        target = None if self.target is None else str(self.target)
        try:
            settings = DataSettings(
                train=str(self.path),
                train_target=target,
                format=self._format,
                columns=self.columns,
                history=history,
                documents=documents,
            )
            yield Corpus(settings, fields, unit=unit).records(counts)
        except (InputError, SettingsError) as error:
            raise type(error)(reworded(str(error))) from None
        if len(counts.to_mapping()) > 1:
            sys.stderr.write(f"{self.path}: {'; '.join(counts.report())}\n")

    @property
    def _format(self) -> "Format":
        """How the files are read: what has columns is TSV, unless it is called JSONL."""
        from sightline.text.data import DataSettings

        if self.option in ("--source", "--text"):
            return "parallel" if self.option == "--source" else "text"
        named = DataSettings(train=str(self.path)).format_of("train")
        return "jsonl" if named == "jsonl" else "tsv"


def example(record: "Record", labels: "Labels") -> "tuple[Field | tuple[str, str], Field]":
    """Return what is classified, and as what it should be."""
    *given, wanted = record.fields
    for name in (wanted,) if isinstance(wanted, str) else wanted:
        labels.id_of(name, record.place)
    if not isinstance(wanted, str) and len(given[0]) != len(wanted):
        raise InputError(f"{record.place}: {len(given[0])} words have {len(wanted)} labels: each needs one")
    return (str(given[0]), str(given[1])) if len(given) == 2 else given[0], wanted


def together(names: Sequence[str]) -> str:
    """Return names as a sentence has them."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def reworded(message: str) -> str:
    """Say what the readers say in terms of our options."""
    for theirs, ours in WORDING.items():
        message = message.replace(theirs, ours)
    return message
