"""`sightline clean`: what is wrong with a corpus, counted, with examples; and the clean corpus as a file."""

import gzip
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sightline.cli.texts import put_json, put_line, show_status
from sightline.errors import InputError, RefusedError, SightlineError

if TYPE_CHECKING:
    from sightline.data.corpora.cleaning import Cleaner, CleaningReport
    from sightline.data.corpora.corpus import Corpus
    from sightline.data.corpora.files import Counts
    from sightline.data.corpora.records import Record
    from sightline.data.corpora.settings import DataSettings

KindOption = Literal["auto", "pairs", "labeled", "text"]


def clean(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Corpus: TSV, CSV, JSONL or text, plain or gzipped.")],
    target: Annotated[
        Path | None, typer.Option(metavar="F", help="Target side, where source and target are two line-aligned files.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="F", help="File for what is kept, in the same format; .gz compresses it.")
    ] = None,
    out_target: Annotated[
        Path | None, typer.Option(metavar="F", help="File for the target side of what is kept, with --target.")
    ] = None,
    kind: Annotated[
        KindOption,
        typer.Option(help="What a row is: a pair of sides, a text (or two) with a label, or a line of text."),
    ] = "auto",
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of a table (names, or numbers from 1) or keys of JSONL.")
    ] = None,
    rules: Annotated[str | None, typer.Option(metavar="R,…", help="Rules to apply; default: all that fit.")] = None,
    skip_rule: Annotated[
        list[str] | None, typer.Option(metavar="R", help="Rule to leave out; may be repeated.")
    ] = None,
    max_ratio: Annotated[
        float, typer.Option(metavar="X", help="length_ratio: times the usual length of one side beside the other.")
    ] = 3.0,
    max_characters: Annotated[
        int, typer.Option(metavar="N", help="too_long: maximum length of a side of a pair.")
    ] = 1_000,
    min_evidence: Annotated[
        float,
        typer.Option(metavar="X", help="swapped, wrong_language: log-likelihood ratio needed."),
    ] = 10.0,
    examples: Annotated[
        int, typer.Option(min=0, max=1_000, metavar="N", help="Number of examples shown for each rule.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count what is wrong with a corpus, show examples, and write a clean one.

    Each rule prints how much it would drop. A row that several rules find counts for each, and once in the total. With
    --out, everything else is written, as it stands in the file. Training does the same with data.clean=true.

    Rules: empty, too_long, length_ratio, identical, swapped, wrong_language, wrong_script, numbers, encoding, markup,
    controls, duplicate, near_duplicate. Labeled texts and lines of text get those that need no second side.

    \b
    Examples:
      sightline clean pairs.tsv
      sightline clean pairs.tsv --out clean.tsv --skip-rule numbers
      sightline clean train.en --target train.de --out clean.en --out-target clean.de
      sightline clean reviews.csv --kind labeled --columns text,label --json
    """
    from sightline.data.corpora.cleaning import CleaningReport, CleaningSettings, choose_rules
    from sightline.data.corpora.files import Counts

    if (out_target is not None) != (out is not None and target is not None):
        raise InputError("needed together with --target and --out, and only there", option="out_target")
    inputs = [path.resolve() for path in (file, target) if path is not None]
    if any(path is not None and path.resolve() in inputs for path in (out, out_target)):
        raise InputError("write to another file than the one that is read", option="out")
    settings = CleaningSettings(
        rules=choose_rules([name.strip() for name in rules.split(",")] if rules else [], skip_rule or []),
        max_ratio=max_ratio,
        max_characters=max_characters,
        min_evidence=min_evidence,
    )
    counts = Counts()
    with name_own_options():
        corpus = open_corpus(file, target, kind, tuple(name.strip() for name in columns.split(",")) if columns else ())
        for line in corpus.describe_tables():
            sys.stderr.write(f"{line}\n")
    with name_own_options(), show_status("cleaning …"):
        cleaner = corpus.make_cleaner(settings)
        if not cleaner.rules:
            raise InputError(f"none of these rules is for this kind of file: it is {kind_of(corpus)}", option="rules")
        report = CleaningReport(cleaner.rules, n_examples=examples)
        write_kept(corpus, find_kept(corpus, cleaner, report, counts), out, out_target)
    if not report.total:
        raise RefusedError(f"{corpus.name}: no usable record: it is empty")
    for line in counts.report():
        sys.stderr.write(f"{line}\n")
    if as_json:
        put_json({"file": str(file), "kind": kind_of(corpus), **report.to_mapping(), "read": counts.to_mapping()})
    else:
        put_line(f"kind: {kind_of(corpus)} ({', '.join(corpus.fields)})")
        for line in report.lines():
            put_line(line)
    if out is not None:
        written = " and ".join(str(path) for path in (out, out_target) if path is not None)
        sys.stderr.write(f"{report.total - report.dropped:,} kept, in {written}\n")


OWN_OPTIONS = {"data.columns": "columns", "data.train_target": "target"}
"""Settings of training that are options here."""


@contextmanager
def name_own_options() -> Iterator[None]:
    """Name the option of `clean` in the advice of an error, or leave out advice that is for training."""
    try:
        yield
    except RefusedError as error:
        if error.setting is None:
            raise
        raise RefusedError(error.reason, setting=OWN_OPTIONS.get(error.setting), advice=error.advice) from None


def find_kept(corpus: "Corpus", cleaner: "Cleaner", report: "CleaningReport", counts: "Counts") -> "Iterator[Record]":
    """Yield what no rule drops, and count everything."""
    for record, faults in corpus.find_faults(cleaner, counts):
        if not faults and not any(str(text).strip() for text in record.fields):
            yield record  # a blank line between documents is no record
            continue
        report.add(record, faults)
        if not faults:
            yield record


def open_corpus(file: Path, target: Path | None, kind: KindOption, columns: tuple[str, ...]) -> "Corpus":
    """Return the corpus of the files, with the fields that fit its kind."""
    from sightline.data.corpora.corpus import Corpus
    from sightline.data.corpora.files import require_file
    from sightline.data.corpora.records import SOURCE_AND_TARGET, TEXT, TEXT_AND_LABEL
    from sightline.data.corpora.settings import DataSettings

    require_file(file)
    settings = DataSettings(
        train=str(file),
        train_target=None if target is None else str(target),
        columns=columns,
        document_separator="file",  # keeps blank lines
    )
    if settings.format_of("train") == "text" and kind in ("auto", "text"):
        return Corpus(settings, TEXT, unit="line")
    if target is None and settings.format_of("train") != "text":
        return Corpus(settings, detect_fields(file, settings, kind))
    fields = {"auto": SOURCE_AND_TARGET, "pairs": SOURCE_AND_TARGET, "labeled": TEXT_AND_LABEL, "text": TEXT}[kind]
    return Corpus(settings, fields)


SAMPLE_ROWS = 2_000
MAX_LABEL_SHARE, MAX_LABEL_LENGTH, MIN_LABELED = 0.2, 40, 4
"""A column with fewer different values than this share of its rows, all of them short, holds labels."""


def detect_fields(file: Path, settings: "DataSettings", kind: KindOption) -> tuple[str, ...]:
    """Return the fields of a table or JSONL file, by the names of its columns, or by what they hold."""
    is_jsonl = settings.format_of("train") == "jsonl"
    names, rows = sample_jsonl(file, settings.columns) if is_jsonl else sample_rows(file, settings)
    found = fields_by_name(names, kind, settings) or fields_by_content(rows, kind)
    if found is None:
        raise InputError(f"{file}: what its columns hold is not clear: choose one or two with --columns, and --kind")
    return found


def fields_by_name(names: Sequence[str], kind: KindOption, settings: "DataSettings") -> tuple[str, ...] | None:
    """Return the fields that columns are named after: all chosen ones in this order, or some of the file."""
    from sightline.data.corpora.records import (
        PAIR_AND_LABEL,
        SOURCE_AND_TARGET,
        SOURCE_TARGET_LANGUAGE,
        TEXT,
        TEXT_AND_LABEL,
    )

    pairs, labeled = (SOURCE_TARGET_LANGUAGE, SOURCE_AND_TARGET), (PAIR_AND_LABEL, TEXT_AND_LABEL)
    text = (TEXT,) if settings.format_of("train") == "jsonl" else ()  # in a table it may be one side of a pair
    known = {"auto": (*pairs, *labeled, *text), "pairs": pairs, "labeled": labeled, "text": (TEXT,)}[kind]
    given = tuple(name.casefold() for name in names)
    if settings.columns:
        return given if given in known else None
    return next((fields for fields in known if set(fields) <= set(given)), None)


def fields_by_content(rows: list[list[str]], kind: KindOption) -> tuple[str, ...] | None:
    """Return the fields of rows by their number and what the last of them holds; None if that is not clear."""
    from sightline.data.corpora.records import (
        PAIR_AND_LABEL,
        SOURCE_AND_TARGET,
        SOURCE_TARGET_LANGUAGE,
        TEXT,
        TEXT_AND_LABEL,
    )

    width = len(rows[0]) if rows else 0
    columns = list(zip(*(row for row in rows if len(row) == width), strict=True))
    labels = bool(columns) and holds_labels(columns[-1])
    pair_and_label = width == 3 and not any(map(holds_numbers, columns[:-1]))  # an id is no text
    if kind == "text":
        return TEXT
    if kind == "pairs":
        return SOURCE_TARGET_LANGUAGE if width == 3 and labels else SOURCE_AND_TARGET
    if kind == "labeled":
        return PAIR_AND_LABEL if pair_and_label else TEXT_AND_LABEL
    if width == 3 and labels:
        return SOURCE_TARGET_LANGUAGE if holds_languages(columns[-1]) else PAIR_AND_LABEL if pair_and_label else None
    return {1: TEXT, 2: TEXT_AND_LABEL if labels else SOURCE_AND_TARGET}.get(width)


def sample_jsonl(file: Path, columns: tuple[str, ...]) -> tuple[Sequence[str], list[list[str]]]:
    """Return the keys of the first line of a JSONL file; or those chosen, with their values in the first lines."""
    from itertools import islice

    from sightline.data.corpora.files import Counts
    from sightline.data.corpora.formats import read_entries, read_jsonl

    if not columns:
        for _, entries, _ in read_entries(file, on_bad_utf8="replace", counts=Counts()):
            return tuple(entries), []
        return (), []
    fields = (*columns[:-1], "label")  # a label may be a number
    records = read_jsonl(file, columns=columns, fields=fields, on_bad_utf8="replace", counts=Counts())
    return columns, [list(map(str, record.fields)) for record in islice(records, SAMPLE_ROWS)]


def sample_rows(file: Path, settings: "DataSettings") -> tuple[Sequence[str], list[list[str]]]:
    """Return the names of the columns of a table and its first rows: of the chosen columns, or all."""
    from itertools import islice

    from sightline.data.corpora.files import Counts, read_lines
    from sightline.data.corpora.tables import TableSettings, detect_dialect, read_rows

    table = TableSettings(("source", "target"), settings.columns)
    dialect = detect_dialect(file, table, csv=settings.format_of("train") == "csv")
    names = list(dialect.header or ())
    if table.numbered:
        chosen = [int(name) - 1 for name in settings.columns]
    else:
        chosen = [names.index(name) for name in settings.columns if name in names]
    rows = islice(read_rows(read_lines(file, on_bad_utf8="replace", counts=Counts()), dialect, file), SAMPLE_ROWS)
    filled = [row.cells for row in rows if row.text.strip()][dialect.header is not None :]
    if not chosen:
        return names, filled
    return settings.columns, [[row[at] for at in chosen] for row in filled if max(chosen) < len(row)]


def holds_labels(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column are labels: short, and the same few ones over and over."""
    few = len(set(cells)) <= max(2, MAX_LABEL_SHARE * len(cells))
    return len(cells) > MIN_LABELED and few and max(map(len, cells)) <= MAX_LABEL_LENGTH


def holds_numbers(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column are numbers; the first may be its name."""
    from sightline.data.corpora.tables import is_number

    return len(cells) > 1 and all(map(is_number, cells[1:]))


def holds_languages(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column are codes of languages, such as de or pt-BR; the first may be its name.

    Codes of three letters do not count: pos and sad could be some.
    """
    from babel import Locale

    known = {str(code) for code in Locale("en").languages if len(str(code)) == 2}
    return {re.split("[-_]", cell.strip(), maxsplit=1)[0].lower() for cell in cells[1:]} <= known


def kind_of(corpus: "Corpus") -> str:
    """Return what the rows of a corpus are."""
    from sightline.data.corpora.records import TEXT

    return "text" if corpus.fields == TEXT else corpus.kind


def write_kept(corpus: "Corpus", kept: "Iterator[Record]", out: Path | None, out_target: Path | None) -> None:
    """Write the kept records as they stand in the file, with its header line; all files at once, or none."""
    from sightline.storage import replace_file

    places = [path for path in (out, out_target) if path is not None]
    try:
        with ExitStack() as stack:
            new = [stack.enter_context(replace_file(path)) for path in places]
            opened = zip(new, places, strict=True)
            files = [stack.enter_context(open_text(path, gzipped=place.suffix == ".gz")) for path, place in opened]
            if files and (header := corpus.read_header()) is not None:
                files[0].write(f"{header}\n")
            for record in kept:
                texts = [record.raw] if record.raw else [str(text) for text in record.fields]
                for file, text in zip(files, texts, strict=False):
                    file.write(f"{text}\n")
    except OSError as error:
        raise SightlineError(f"{' and '.join(map(str, places))}: cannot write: {error.strerror or error}") from None


def open_text(path: Path, *, gzipped: bool) -> TextIOWrapper:
    """Open a file for text."""
    if gzipped:
        return gzip.open(path, "wt", encoding="utf-8", newline="\n")
    return path.open("w", encoding="utf-8", newline="\n")
