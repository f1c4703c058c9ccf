"""A corpus: files read as records, cleaned, with every anomaly counted or refused.

Nothing is kept in memory: a corpus is read again for every pass over it. Every anomaly has one outcome:

    kept and counted       control characters, duplicates, pairs with identical sides
    repaired and counted   a UTF-8 byte order mark; a line of text above a megabyte (split); bad UTF-8 on "replace"
    dropped and counted    blank records, pairs with a blank side, dialogues of a single turn; a row above a megabyte;
                           bad UTF-8 on "skip"; duplicates and identical sides if the settings say so
    refused, with line     bad UTF-8 on "refuse"; UTF-16; parallel files of different length; a wrong number of columns;
                           JSON that is not strict, of the wrong type or above a megabyte a line; damaged gzip, bombs;
                           pipes, folders, missing and unreadable files; a file that changes while it is encoded;
                           a corpus without a usable record

Texts are never changed otherwise: outer spaces, Unicode line breaks and names of special tokens are text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sightline.errors import InputError, SettingsError
from sightline.text.cleaning import clean
from sightline.text.counts import Counts
from sightline.text.data import DataSettings, Format, Part
from sightline.text.dialogue import casual_variants, format_context
from sightline.text.documents import Unit, read_text
from sightline.text.files import display_path
from sightline.text.jsonl import read_jsonl
from sightline.text.record import LISTS, SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TEXT, TURNS, Record
from sightline.text.tables import read_parallel, read_tsv


@dataclass(frozen=True)
class Corpus:
    """The training or validation set, as the fields a task needs."""

    settings: DataSettings
    fields: tuple[str, ...]
    """Fields of a record: one of the tuples of `record`."""
    part: Part = "train"
    unit: Unit = "chunk"
    """Records of running text: chunks of documents, or lines."""

    def __post_init__(self) -> None:
        if not self.files:
            raise SettingsError(f"data.{self.part} names no file")
        columns, needed = self.settings.columns, self.row_fields
        if columns and len(columns) != len(needed):
            raise SettingsError(f"data.columns must name {len(needed)} ({', '.join(needed)}), not {len(columns)}")
        if self.format == "text" and self.fields != TEXT:
            raise SettingsError(f"{display_path(self.files[0])}: {self._format_hint()}")
        if self.format == "parallel" and self.fields != SOURCE_AND_TARGET:
            raise SettingsError(f"parallel files hold sources and targets, not {' and '.join(self.fields)}")
        if self.format == "tsv" and LISTS & set(self.fields) and self.fields != TURNS:
            raise SettingsError(f"{' and '.join(self.fields)} are lists: give them as JSONL, not as TSV")

    def _format_hint(self) -> str:
        needed = " and ".join(self.fields)
        if self.fields == SOURCE_AND_TARGET:
            return "this task needs pairs: give a .tsv or .jsonl file, or the target file as data.train_target"
        return f"this task needs {needed}: give a .tsv or .jsonl file (or set data.format)"

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file of the corpus."""
        return self.settings.files(self.part)

    @property
    def format(self) -> Format:
        """Format of the files."""
        return self.settings.format_of(self.part)

    @property
    def row_fields(self) -> tuple[str, ...]:
        """Fields of a line: two turns in a TSV of dialogues, else those of a record."""
        return ("turn", "reply") if (self.format, self.fields) == ("tsv", TURNS) else self.fields

    def records(self, counts: Counts | None = None) -> Iterator[Record]:
        """Yield the records, counting into `counts`; a corpus without a usable record is refused at the end."""
        counts = Counts() if counts is None else counts
        read = self._read(counts)
        if self.fields == TURNS:
            casual = self.settings.casual_user_turns and self.part == "train"
            read = reply_pairs(read, context_turns=self.settings.context_turns, casual=casual, counts=counts)
        yield from clean(
            read,
            pairs=self.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TURNS),
            drop_duplicates=self.settings.drop_duplicates,
            drop_identical=self.settings.drop_identical,
            counts=counts,
        )
        if not counts["kept"]:
            dropped = "; ".join(counts.report())
            reason = f"every record was dropped ({dropped})" if dropped else "it is empty"
            raise InputError(f"{' and '.join(map(display_path, self.files))}: there is nothing to train on: {reason}")

    def texts(self, fields: Sequence[int] | None = None, *, stride: int = 1) -> Iterator[str]:
        """Yield the texts to train a tokenizer on: all or some fields of every record (or every `stride`-th)."""
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
            return read_text(
                path, unit=self.unit, documents=settings.document_separator, on_bad_utf8=policy, counts=counts
            )
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
