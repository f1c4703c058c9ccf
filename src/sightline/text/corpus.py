"""A corpus: files read as records, cleaned, with everything unusual counted or refused.

Nothing is kept in memory: a corpus is read again for every pass over it. What is unusual has one outcome each:

    kept and counted       control characters, duplicates, pairs of two equal sides
    mended and counted     a UTF-8 byte order mark; a line of text above a megabyte (cut); bad UTF-8 on "replace"
    dropped and counted    blank records, pairs with a blank side, dialogues of a single turn; a row above a megabyte;
                           bad UTF-8 on "skip"; duplicates and equal sides if asked
    refused with place     bad UTF-8 on "refuse"; UTF-16; parallel files of different length; a wrong number of columns;
                           JSON that is not strict, of the wrong type or above a megabyte a line; damaged gzip, bombs;
                           pipes, folders, missing and unreadable files; a file that changes while it is encoded;
                           a corpus without a usable record

Texts are never changed otherwise: outer blanks, line breaks of Unicode and names of special tokens are text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sightline.errors import InputError, SettingsError
from sightline.text.cleaning import cleaned
from sightline.text.counts import Counts
from sightline.text.data import DataSettings, Format, Part
from sightline.text.dialogue import source_of, typed_in_haste
from sightline.text.documents import Unit, read_text
from sightline.text.files import shown_path
from sightline.text.jsonl import read_jsonl
from sightline.text.record import LISTS, SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TEXT, TURNS, Record
from sightline.text.tables import read_parallel, read_tsv


@dataclass(frozen=True)
class Corpus:
    """One part of the data, as the fields a task needs."""

    settings: DataSettings
    fields: tuple[str, ...]
    """What a record holds: one of the tuples of `record`."""
    part: Part = "train"
    unit: Unit = "piece"
    """Of running text: pieces of documents, or lines."""

    def __post_init__(self) -> None:
        if not self.files:
            raise SettingsError(f"data.{self.part} names no file")
        columns, wanted = self.settings.columns, self.row_fields
        if columns and len(columns) != len(wanted):
            raise SettingsError(f"data.columns must name {len(wanted)} ({', '.join(wanted)}), not {len(columns)}")
        if self.format == "text" and self.fields != TEXT:
            raise SettingsError(f"{shown_path(self.files[0])}: {self._advice()}")
        if self.format == "parallel" and self.fields != SOURCE_AND_TARGET:
            raise SettingsError(f"parallel files hold sources and targets, not {' and '.join(self.fields)}")
        if self.format == "tsv" and LISTS & set(self.fields) and self.fields != TURNS:
            raise SettingsError(f"{' and '.join(self.fields)} are lists: give them as JSONL, not as TSV")

    def _advice(self) -> str:
        wanted = " and ".join(self.fields)
        if self.fields == SOURCE_AND_TARGET:
            return "this task needs pairs: give a .tsv or .jsonl file, or the other side as data.train_target"
        return f"this task needs {wanted}: give a .tsv or .jsonl file (or say so with data.format)"

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read."""
        return self.settings.files(self.part)

    @property
    def format(self) -> Format:
        """How the files are read."""
        return self.settings.format_of(self.part)

    @property
    def row_fields(self) -> tuple[str, ...]:
        """What a line of the file holds: in a TSV of dialogues two turns, else the fields."""
        return ("turn", "reply") if (self.format, self.fields) == ("tsv", TURNS) else self.fields

    def records(self, counts: Counts | None = None) -> Iterator[Record]:
        """Read the corpus once, counting into `counts`; one without a usable record is refused at the end."""
        counts = Counts() if counts is None else counts
        read = self._read(counts)
        if self.fields == TURNS:
            in_haste = self.settings.typed_in_haste and self.part == "train"
            read = replies(read, history=self.settings.history, in_haste=in_haste, counts=counts)
        yield from cleaned(
            read,
            pairs=self.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TURNS),
            drop_duplicates=self.settings.drop_duplicates,
            drop_copies=self.settings.drop_copies,
            counts=counts,
        )
        if not counts["kept"]:
            met = "; ".join(counts.report())
            found = f"what is there was left out ({met})" if met else "it is empty"
            raise InputError(f"{' and '.join(map(shown_path, self.files))}: there is nothing to learn from: {found}")

    def texts(self, fields: Sequence[int] | None = None, *, stride: int = 1) -> Iterator[str]:
        """Yield the texts to make a tokenizer from: of every record (or every `stride`-th), all fields or only some."""
        for record in islice(self.records(), None, None, stride):
            for number, field in enumerate(record.fields):
                if fields is None or number in fields:
                    yield from (field,) if isinstance(field, str) else field

    def _read(self, counts: Counts) -> Iterator[Record]:
        settings, policy = self.settings, self.settings.on_bad_utf8
        if self.format == "parallel":
            return read_parallel(*self.files, on_bad_utf8=policy, counts=counts)
        if self.format == "text":
            (path,) = self.files
            return read_text(path, unit=self.unit, documents=settings.documents, on_bad_utf8=policy, counts=counts)
        path = self.files[0]
        if self.format == "jsonl":
            return read_jsonl(path, columns=settings.columns, fields=self.fields, on_bad_utf8=policy, counts=counts)
        rows = read_tsv(
            path,
            columns=settings.columns,
            fields=self.row_fields,
            header=settings.header,
            on_bad_utf8=policy,
            counts=counts,
        )
        return (row._replace(fields=(tuple(map(str, row.fields)),)) for row in rows) if self.fields == TURNS else rows


def replies(dialogues: Iterable[Record], *, history: int, in_haste: bool, counts: Counts) -> Iterator[Record]:
    r"""Yield every turn of a dialogue but the first as the target, the turns before it as the source, \n between.

    All pairs of a dialogue have its first turn as their key, so that a split leaves dialogues whole, and those that
    begin alike together. With `in_haste`, each target also follows what was said as people type it.
    """
    for record in dialogues:
        (turns,) = record.fields
        counts.add("single_turns", int(len(turns) < 2))
        for at in range(1, len(turns)):
            source = source_of(turns[:at], history=history)
            yield record._replace(fields=(source, turns[at]), key=turns[0])
            typed = source_of(typed_in_haste(turns[:at]), history=history) if in_haste else source
            if typed != source:
                yield record._replace(fields=(typed, turns[at]), key=turns[0])
