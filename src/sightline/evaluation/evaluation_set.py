"""Test sets, read by the corpus readers and held in memory as a whole. Knows no model."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path

from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import Counts
from sightline.data.corpora.formats import DocumentSeparator, Unit
from sightline.data.corpora.records import (
    PAIR_AND_LABEL,
    SOURCE_AND_TARGET,
    SOURCE_TARGET_LANGUAGE,
    TEXT,
    TEXT_AND_LABEL,
    TOKENS_AND_LABELS,
    TURNS,
    Field,
    Labels,
    Record,
)
from sightline.data.corpora.settings import DataSettings, Format, extension_format
from sightline.errors import InputError, RefusedError

KINDS = ("source", "tsv", "text", "dialogues", "labeled")
VALID_WITH = {
    "columns": ("tsv", "dialogues", "labeled"),
    "pair": ("labeled",),
    "documents": ("text",),
    "context": ("text",),
    "output": ("source", "tsv", "labeled"),
}
PAIRS = ("source", "tsv")
"""Test sets each option applies to, those for pairs if it is not listed; with others it would silently do nothing."""


@dataclass(frozen=True)
class EvaluationSet:
    """A test set: its files and how to read them."""

    kind: str
    """One of `KINDS`: the option that named it."""
    path: Path
    target: Path | None = None
    columns: tuple[str, ...] = ()
    pair: bool = False
    limit: int | None = None

    @classmethod
    def of(
        cls,
        files: Mapping[str, Path | str | None],
        *,
        columns: tuple[str, ...] = (),
        pair: bool = False,
        limit: int | None = None,
        options: Mapping[str, object],
    ) -> "EvaluationSet":
        """Return the one test set among these files; `options` that are set must apply to it."""
        given = [(kind, path) for kind in KINDS if (path := files.get(kind)) is not None]
        target = files.get("target")
        if len(given) != 1:
            raise InputError("give one test set: source and target, tsv, text, dialogues or labeled")
        [(kind, path)] = given
        if (target is not None) != (kind == "source"):
            raise InputError("source and target go together: line n of one is the translation of line n of the other")
        for name, value in {"columns": columns or None, "pair": pair or None, **options}.items():
            if value is not None and kind not in (valid := VALID_WITH.get(name, PAIRS)):
                raise InputError(f"only for {join_names(valid)}, not for {kind}", option=name)
        return cls(kind, Path(path), None if target is None else Path(target), columns, pair, limit)

    @property
    def is_table(self) -> bool:
        """Whether a third column may name the target language of each line."""
        return self.kind == "tsv"

    def pairs(self, *, language_column: bool) -> list[tuple[str, ...]]:
        """Return sources and targets, and the target language of each if there is a column for it."""
        fields = SOURCE_TARGET_LANGUAGE if language_column else SOURCE_AND_TARGET
        with self._records(fields) as records:
            return [tuple(map(str, record.fields)) for record in islice(records, self.limit)]

    def documents(self, *, separator: DocumentSeparator = "blank") -> list[str]:
        """Return the documents of a text file."""
        with self._records(TEXT, document_separator=separator) as records:
            parts = groupby(records, key=lambda record: record.document)
            texts = ("".join(str(record.fields[0]) for record in document) for _, document in parts)
            return list(islice(texts, self.limit))

    def lines(self) -> list[str]:
        """Return the lines of a text file."""
        with self._records(TEXT, unit="line") as records:
            return [str(record.fields[0]) for record in islice(records, self.limit)]

    def exchanges(self, *, context_turns: int) -> list[tuple[str, str]]:
        """Return every reply with the turns before it, at most `context_turns`, one per line."""
        with self._records(TURNS, context_turns=context_turns) as records:
            return [(str(record.fields[0]), str(record.fields[1])) for record in islice(records, self.limit)]

    def labeled(self, names: Sequence[str], *, per_word: bool) -> list[tuple[Field | tuple[str, str], Field]]:
        """Return texts, pairs of texts, or words, with their labels; an unknown label is refused with its location."""
        if per_word and self.pair:
            raise InputError("this model classifies words, not pairs of texts: leave it out", option="pair")
        labels = Labels(tuple(names))
        with self._records(
            TOKENS_AND_LABELS if per_word else PAIR_AND_LABEL if self.pair else TEXT_AND_LABEL
        ) as records:
            return [build_example(record, labels) for record in islice(records, self.limit)]

    @contextmanager
    def _records(
        self,
        fields: tuple[str, ...],
        *,
        unit: Unit = "chunk",
        context_turns: int = 1,
        document_separator: DocumentSeparator = "blank",
    ) -> Iterator[Iterator[Record]]:
        """Read the files; print on stderr what was dropped or repaired."""
        counts = Counts()
        target = None if self.target is None else str(self.target)
        try:
            settings = DataSettings(
                train=str(self.path),
                train_target=target,
                format=self._format,
                columns=self.columns,
                context_turns=context_turns,
                document_separator=document_separator,
            )
            corpus = Corpus(settings, fields, unit=unit)
            for line in corpus.describe_tables():
                sys.stderr.write(f"{line}\n")
            yield corpus.records(counts)
        except RefusedError as error:
            if error.setting is None:
                raise
            if error.setting != "data.columns":
                raise RefusedError(error.reason) from None  # its advice is for training
            no_language = ", or name the language of all lines (--to)" if fields == SOURCE_TARGET_LANGUAGE else ""
            raise RefusedError(
                error.reason, setting="columns", advice=error.advice and error.advice + no_language
            ) from None
        if len(counts.to_mapping()) > 1:
            sys.stderr.write(f"{self.path}: {'; '.join(counts.report())}\n")

    @property
    def _format(self) -> Format:
        """Format of the files: a file with columns is TSV, unless it is named .csv or .jsonl."""
        if self.kind in ("source", "text"):
            return "parallel" if self.kind == "source" else "text"
        named = extension_format(self.path)
        return "tsv" if named == "text" else named


def build_example(record: Record, labels: Labels) -> tuple[Field | tuple[str, str], Field]:
    """Return an input and its label, or labels."""
    *inputs, label = record.fields
    for name in (label,) if isinstance(label, str) else label:
        labels.id_of(name, record.location)
    if not isinstance(label, str) and len(inputs[0]) != len(label):
        raise InputError(f"{record.location}: {len(inputs[0])} words but {len(label)} labels: each word needs one")
    return (str(inputs[0]), str(inputs[1])) if len(inputs) == 2 else inputs[0], label


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
