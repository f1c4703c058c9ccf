"""Test sets of `sightline evaluate`, read by the corpus readers and held in memory as a whole. Knows no model."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sightline.errors import InputError, RefusedError

if TYPE_CHECKING:
    from sightline.data.corpora.formats import DocumentSeparator, Unit
    from sightline.data.corpora.records import Field, Labels, Record
    from sightline.data.corpora.settings import Format

OPTIONS = {"data.columns": "--columns"}
"""The option of each setting that errors of the readers may name; advice on the others is left out."""

TRANSLATION_SETS = ("--source", "--tsv")
VALID_WITH = {
    "--columns": ("--tsv", "--dialogues", "--labeled"),
    "--pair": ("--labeled",),
    "--documents": ("--text",),
    "--context": ("--text",),
    **dict.fromkeys(("--to", "--from", "--beam", "--length-penalty", "--tokenize"), TRANSLATION_SETS),
}
"""Test sets each option applies to; with others it would silently do nothing."""


@dataclass(frozen=True)
class HeldOut:
    """A test set: its files and how to read them."""

    option: str
    """The option that named it: --source, --tsv, --text, --dialogues or --labeled."""
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
        """Return the one test set that the options name; `others` are options that must apply to it."""
        given = [(option, path) for option, path in files.items() if path is not None and option != "--target"]
        target = files.get("--target")
        if len(given) != 1:
            raise RefusedError(
                "give one test set: --source F --target F, --tsv F, --text F, --dialogues F or --labeled F"
            )
        [(option, path)] = given
        if (target is not None) != (option == "--source"):
            raise RefusedError(
                "--source and --target go together: line n of one is the translation of line n of the other"
            )
        for name, value in {"--columns": columns or None, "--pair": pair or None, **others}.items():
            if value is not None and option not in VALID_WITH[name]:
                raise RefusedError(f"{name} is for {join_names(VALID_WITH[name])}, not for {option}")
        return cls(option, path, target, columns, pair, limit)

    @property
    def is_table(self) -> bool:
        """Whether a third column may name the target language of each line."""
        return self.option == "--tsv"

    def pairs(self, *, language_column: bool) -> list[tuple[str, ...]]:
        """Return sources and targets, and the target language of each if there is a column for it."""
        from sightline.data.corpora.records import SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE

        fields = SOURCE_TARGET_LANGUAGE if language_column else SOURCE_AND_TARGET
        with self._records(fields) as records:
            return [tuple(map(str, record.fields)) for record in islice(records, self.limit)]

    def documents(self, *, separator: "DocumentSeparator" = "blank") -> list[str]:
        """Return the documents of a text file."""
        from sightline.data.corpora.records import TEXT

        with self._records(TEXT, document_separator=separator) as records:
            parts = groupby(records, key=lambda record: record.document)
            texts = ("".join(str(record.fields[0]) for record in document) for _, document in parts)
            return list(islice(texts, self.limit))

    def lines(self) -> list[str]:
        """Return the lines of a text file."""
        from sightline.data.corpora.records import TEXT

        with self._records(TEXT, unit="line") as records:
            return [str(record.fields[0]) for record in islice(records, self.limit)]

    def exchanges(self, *, context_turns: int) -> list[tuple[str, str]]:
        """Return every reply with the turns before it, at most `context_turns`, one per line."""
        from sightline.data.corpora.records import TURNS

        with self._records(TURNS, context_turns=context_turns) as records:
            return [(str(record.fields[0]), str(record.fields[1])) for record in islice(records, self.limit)]

    def labeled(self, names: Sequence[str], *, per_word: bool) -> "list[tuple[Field | tuple[str, str], Field]]":
        """Return texts, pairs of texts, or words, with their labels; an unknown label is refused with its location."""
        from sightline.data.corpora.records import PAIR_AND_LABEL, TEXT_AND_LABEL, TOKENS_AND_LABELS, Labels

        if per_word and self.pair:
            raise RefusedError("this model classifies words, not pairs of texts: leave --pair out")
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
        unit: "Unit" = "chunk",
        context_turns: int = 1,
        document_separator: "DocumentSeparator" = "blank",
    ) -> "Iterator[Iterator[Record]]":
        """Read the files; print on stderr what was dropped or repaired."""
        from sightline.data.corpora.corpus import Corpus
        from sightline.data.corpora.files import Counts
        from sightline.data.corpora.records import SOURCE_TARGET_LANGUAGE
        from sightline.data.corpora.settings import DataSettings

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
            yield Corpus(settings, fields, unit=unit).records(counts)
        except RefusedError as error:
            if error.setting is None:
                raise
            message = error.describe(OPTIONS.get(error.setting))
            needs_language = error.setting == "data.columns" and fields == SOURCE_TARGET_LANGUAGE
            raise RefusedError(f"{message}, or give --to" if needs_language else message) from None
        if len(counts.to_mapping()) > 1:
            sys.stderr.write(f"{self.path}: {'; '.join(counts.report())}\n")

    @property
    def _format(self) -> "Format":
        """Format of the files: a file with columns is TSV, unless it is named .jsonl."""
        from sightline.data.corpora.settings import DataSettings

        if self.option in ("--source", "--text"):
            return "parallel" if self.option == "--source" else "text"
        named = DataSettings(train=str(self.path)).format_of("train")
        return "jsonl" if named == "jsonl" else "tsv"


def build_example(record: "Record", labels: "Labels") -> "tuple[Field | tuple[str, str], Field]":
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
