"""A corpus: files read as records, cleaned, with every anomaly counted or refused.

Nothing is kept in memory: a corpus is read again for every pass over it. Every anomaly has one outcome:

    kept and counted       control characters, duplicates, pairs with identical sides
    repaired and counted   a UTF-8 byte order mark; a line of text above a megabyte (split); bad UTF-8 on "replace"
    dropped and counted    blank records, pairs with a blank side, dialogues of a single turn; a row above a megabyte;
                           bad UTF-8 on "skip"; duplicates and identical sides if the settings say so; what the rules
                           of `cleaning.py` find, with `data.clean`
    refused, with line     bad UTF-8 on "refuse"; UTF-16; parallel files of different length; a wrong number of columns;
                           a quote of a table that is out of place; files of several formats;
                           JSON that is not strict, of the wrong type or above a megabyte a line; damaged gzip, bombs;
                           pipes, folders without files, missing and unreadable files;
                           a file that changes while it is encoded; a corpus without a usable record

Texts are never changed otherwise: outer spaces, Unicode line breaks and names of special tokens are text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from sightline.data.corpora.cleaning import Cleaner, CleaningSettings, Fingerprints, Kind, Profile, learn_profile
from sightline.data.corpora.files import Counts, display_path, file_state, read_lines
from sightline.data.corpora.formats import Unit, read_jsonl, read_parallel, read_text
from sightline.data.corpora.records import (
    LISTS,
    NOT_TEXT,
    SOURCE_AND_TARGET,
    SOURCE_TARGET_LANGUAGE,
    TEXT,
    TURNS,
    Record,
)
from sightline.data.corpora.settings import DataSettings, Format, Part
from sightline.data.corpora.tables import TableSettings, detect_dialect, first_row, read_rows, read_table
from sightline.errors import InputError, SettingsError


@dataclass(frozen=True)
class Corpus:
    """The training or validation set, as the fields a task needs."""

    settings: DataSettings
    fields: tuple[str, ...]
    """Fields of a record: one of the tuples of `records.py`."""
    part: Part = "train"
    unit: Unit = "chunk"
    """Records of running text: chunks of documents, or lines."""

    def __post_init__(self) -> None:
        if not self.files:
            raise SettingsError("it names no file", setting=f"data.{self.part}")
        columns, needed = self.settings.columns, self.row_fields
        if columns and len(columns) != len(needed):
            raise SettingsError(
                f"{len(needed)} are needed ({', '.join(needed)}), not {len(columns)}", setting="data.columns"
            )
        if self.format == "text" and self.fields != TEXT:
            raise self._unsuitable_format()
        if self.format == "parallel" and self.fields != SOURCE_AND_TARGET:
            raise SettingsError(f"parallel files hold sources and targets, not {' and '.join(self.fields)}")
        if self.format in ("tsv", "csv") and LISTS & set(self.fields) and self.fields != TURNS:
            raise SettingsError(
                f"{' and '.join(self.fields)} are lists: give them as JSONL, not as {self.format.upper()}"
            )

    @property
    def text_fields(self) -> tuple[int, ...]:
        """Which fields of its records are texts to tokenize: not labels, not names of languages."""
        if self.fields == TURNS:
            return (0, 1)  # a dialogue is read as a source and its reply
        return tuple(number for number, name in enumerate(self.fields) if name not in NOT_TEXT)

    def _unsuitable_format(self) -> SettingsError:
        needed = "pairs" if self.fields == SOURCE_AND_TARGET else " and ".join(self.fields)
        reason = f"{display_path(self.files[0])}: this task needs {needed}: give a .tsv, .csv or .jsonl file"
        if self.fields == SOURCE_AND_TARGET:
            return SettingsError(reason, setting=f"data.{self.part}_target", advice="the target file as {}")
        return SettingsError(reason, setting="data.format", advice="set {}")

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file of the corpus."""
        return self.settings.files(self.part)

    @property
    def name(self) -> str:
        """The files, for messages: all if there are few, else those at both ends."""
        names = [display_path(path) for path in self.files]
        return " and ".join(names) if len(names) <= 2 else f"{names[0]} … {names[-1]} ({len(names):,} files)"

    @property
    def format(self) -> Format:
        """Format of the files."""
        return self.settings.format_of(self.part)

    @property
    def kind(self) -> Kind:
        """What its records are, for the rules of cleaning: a pair of texts with a label is no translation."""
        if self.format == "text":
            return "text"
        return "pairs" if self.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE) else "labeled"

    @property
    def row_fields(self) -> tuple[str, ...]:
        """Fields of a line: two turns in a TSV of dialogues, else those of a record."""
        return ("turn", "reply") if (self.format, self.fields) == ("tsv", TURNS) else self.fields

    def records(self, counts: Counts | None = None) -> Iterator[Record]:
        """Yield the records, counting into `counts`; a corpus without a usable record is refused at the end."""
        counts = Counts() if counts is None else counts
        cleaner = self.make_cleaner() if self.settings.clean and self.part == "train" else None
        by_line = self.format == "text"
        yield from drop_unusable(
            self._read(counts, cleaner if by_line else None),
            pairs=self.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TURNS),
            drop_duplicates=self.settings.drop_duplicates,
            drop_identical=self.settings.drop_identical,
            counts=counts,
            cleaner=None if by_line else cleaner,
        )
        if not counts["kept"]:
            dropped = "; ".join(counts.report())
            reason = f"every record was dropped ({dropped})" if dropped else "it is empty"
            raise InputError(f"{self.name}: no usable record: {reason}")

    def find_faults(self, cleaner: Cleaner, counts: Counts) -> Iterator[tuple[Record, tuple[str, ...]]]:
        """Yield every record, or line of text, with the rules that would drop it."""
        for record in self._read(counts):
            yield record, cleaner.find_faults(record)

    def make_cleaner(self, settings: CleaningSettings | None = None) -> Cleaner:
        """Return a cleaner that knows what is usual in this corpus."""
        lines = replace(self, unit="line")
        states = tuple(map(file_state, self.files))
        return Cleaner(self.kind, self.text_fields, learn_usual(lines, states), settings)

    def texts(self, fields: Sequence[int] | None = None, *, stride: int = 1) -> Iterator[str]:
        """Yield the texts to train a tokenizer on: all or some fields of every record (or every `stride`-th)."""
        for record in islice(self.records(), None, None, stride):
            for number, field in enumerate(record.fields):
                if fields is None or number in fields:
                    yield from (field,) if isinstance(field, str) else field

    def describe_tables(self) -> list[str]:
        """Return the dialect of the first file in a line, if it is a table but no plain TSV."""
        if self.format not in ("tsv", "csv"):
            return []
        path, *others = self.files
        dialect = detect_dialect(path, self._table, csv=self.format == "csv")
        plain_tsv = self.format == "tsv" and not dialect.quoting and dialect.delimiter == "\t"
        more = f" (and {len(others):,} more, each by itself)" if others else ""
        return [] if plain_tsv else [f"{display_path(Path(path.name))}{more}: {dialect.describe()}"]

    def read_header(self) -> str | None:
        """Return the header line of the first file, and Excel's before it, as they stand there; None if it has none."""
        if self.format not in ("tsv", "csv"):
            return None
        path = self.files[0]
        dialect = detect_dialect(path, self._table, csv=self.format == "csv")
        lines = read_lines(path, on_bad_utf8=self.settings.on_bad_utf8, counts=Counts())
        header = first_row(read_rows(lines, dialect, path)) if dialect.header is not None else None
        return "\n".join(filter(None, (dialect.separator_line, header and header.text))) or None

    @property
    def _table(self) -> TableSettings:
        settings = self.settings
        return TableSettings(
            self.row_fields, settings.columns, settings.delimiter_character, settings.quoting, settings.header
        )

    def _read(self, counts: Counts, cleaner: Cleaner | None = None) -> Iterator[Record]:
        """Read the files; the lines of running text are cleaned before they become chunks."""
        read = self._read_files(counts, cleaner)
        if self.fields != TURNS:
            return read
        casual = self.settings.casual_user_turns and self.part == "train"
        return reply_pairs(read, context_turns=self.settings.context_turns, casual=casual, counts=counts)

    def _read_files(self, counts: Counts, cleaner: Cleaner | None) -> Iterator[Record]:
        settings, policy, sides = self.settings, self.settings.on_bad_utf8, self.settings.sides(self.part)
        if self.format == "parallel":
            for source, target in zip(*sides, strict=True):
                yield from read_parallel(source, target, on_bad_utf8=policy, counts=counts)
        elif self.format == "text":
            yield from read_text(
                sides[0],
                unit=self.unit,
                documents=settings.document_separator,
                on_bad_utf8=policy,
                counts=counts,
                keep=(lambda line: is_clean(line, cleaner, counts)) if cleaner else None,
            )
        elif self.format == "jsonl":
            for path in sides[0]:
                yield from read_jsonl(
                    path, columns=settings.columns, fields=self.fields, on_bad_utf8=policy, counts=counts
                )
        else:
            for path in sides[0]:
                rows = read_table(path, self._table, csv=self.format == "csv", on_bad_utf8=policy, counts=counts)
                as_turns = self.fields == TURNS
                yield from (row._replace(fields=(tuple(map(str, row.fields)),)) for row in rows) if as_turns else rows


@lru_cache(maxsize=4)
def learn_usual(corpus: Corpus, states: tuple[tuple[int, int], ...]) -> Profile:  # noqa: ARG001
    """Learn what is usual in a corpus whose files are in a given state: it is read several times."""
    return learn_profile(corpus._read(Counts()), corpus.text_fields, kind=corpus.kind)


def is_clean(record: Record, cleaner: Cleaner, counts: Counts) -> bool:
    """Return whether no rule would drop a record; count those that would."""
    faults = cleaner.find_faults(record)
    counts.add("cleaned", int(bool(faults)))
    for name in faults:
        counts.add(f"clean_{name}")
    return not faults


def drop_unusable(
    records: Iterable[Record],
    *,
    pairs: bool,
    drop_duplicates: bool,
    drop_identical: bool,
    counts: Counts,
    cleaner: Cleaner | None = None,
) -> Iterator[Record]:
    """Yield the usable records; with `pairs`, look for pairs with identical sides."""
    seen = Fingerprints()
    for record in records:
        if outcome := blank_outcome(record):
            counts.add(outcome)
            continue
        if cleaner is not None and not is_clean(record, cleaner, counts):
            continue
        if pairs and record.fields[0] == record.fields[1]:
            counts.add("copies_dropped" if drop_identical else "copies")
            if drop_identical:
                continue
        if seen.add(repr(record.fields)):
            counts.add("duplicates_dropped" if drop_duplicates else "duplicates")
            if drop_duplicates:
                continue
        counts.add("kept")
        yield record


def blank_outcome(record: Record) -> str | None:
    """Return the outcome to count for a blank or half-blank record, or None."""
    blank = [not "".join(field).strip() for field in record.fields]
    if not any(blank):
        return None
    return "blank" if all(blank) else "half_blank"


def reply_pairs(dialogues: Iterable[Record], *, context_turns: int, casual: bool, counts: Counts) -> Iterator[Record]:
    r"""Yield every turn of a dialogue but the first as a target, with the turns before it, joined by \n, as its source.

    All pairs of a dialogue have its first turn as their key, so that a split keeps dialogues whole, and those that
    begin alike together. With `casual`, each target is also paired with a casually typed source.
    """
    for record in dialogues:
        (turns,) = record.fields
        counts.add("single_turns", int(len(turns) < 2))
        for at in range(1, len(turns)):
            source = format_context(turns[:at], context_turns=context_turns)
            yield record._replace(fields=(source, turns[at]), key=turns[0])
            casual_source = (
                format_context(casual_variants(turns[:at]), context_turns=context_turns) if casual else source
            )
            if casual_source != source:
                yield record._replace(fields=(casual_source, turns[at]), key=turns[0])


def format_context(turns: Sequence[str], *, context_turns: int) -> str:
    """Return the last `context_turns` turns, oldest first, one per line; line breaks within a turn become spaces."""
    return "\n".join(" ".join(turn.splitlines()) for turn in turns[-context_turns:])


PUNCTUATION = re.compile(r"[^\w\s'’]|_")


def casual_variants(turns: Sequence[str]) -> list[str]:
    """Return the turns with those of the user as people type them in a chat: lower case, without punctuation.

    User turns are the last and every second one before it; the others are the model's own, which it reads as it wrote
    them. A turn of nothing but punctuation stays.
    """
    casual = list(turns)
    for at in range(len(turns) - 1, -1, -2):
        casual[at] = " ".join(PUNCTUATION.sub(" ", turns[at].lower()).split()) or turns[at]
    return casual
