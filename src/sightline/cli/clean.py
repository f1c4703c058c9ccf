"""`sightline clean`: what is wrong with a corpus, counted, with examples; and the clean corpus as a file."""

import gzip
import sys
from collections.abc import Iterator
from contextlib import ExitStack
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
        KindOption, typer.Option(help="What a row is: a pair of sides, a text with a label, or a line of text.")
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
    corpus = open_corpus(file, target, kind, tuple(name.strip() for name in columns.split(",")) if columns else ())
    settings = CleaningSettings(
        rules=choose_rules([name.strip() for name in rules.split(",")] if rules else [], skip_rule or []),
        max_ratio=max_ratio,
        max_characters=max_characters,
        min_evidence=min_evidence,
    )
    counts = Counts()
    for line in corpus.describe_tables():
        sys.stderr.write(f"{line}\n")
    with show_status("cleaning …"):
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
        for line in report.lines():
            put_line(line)
    if out is not None:
        written = " and ".join(str(path) for path in (out, out_target) if path is not None)
        sys.stderr.write(f"{report.total - report.dropped:,} kept, in {written}\n")


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
    if kind == "auto" and target is None:
        return Corpus(settings, detect_fields(file, settings))
    fields = {"auto": SOURCE_AND_TARGET, "pairs": SOURCE_AND_TARGET, "labeled": TEXT_AND_LABEL, "text": TEXT}[kind]
    return Corpus(settings, fields)


SAMPLE_ROWS = 2_000
MAX_LABEL_SHARE, MAX_LABEL_LENGTH, MIN_LABELED = 0.2, 40, 4
"""A column with fewer different values than this share of its rows, all of them short, holds labels."""


def detect_fields(file: Path, settings: "DataSettings") -> tuple[str, ...]:
    """Return the fields of a table or JSONL file, by its columns and what the last of them holds."""
    from sightline.data.corpora.records import SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TEXT, TEXT_AND_LABEL

    found: tuple[str, ...] | None
    if settings.format_of("train") == "jsonl":
        keys = read_first_keys(file)
        by_name = (SOURCE_TARGET_LANGUAGE, SOURCE_AND_TARGET, TEXT_AND_LABEL, TEXT)
        found = next((fields for fields in by_name if set(fields) <= keys), None)
    else:
        rows = sample_rows(file, settings)
        width = len(rows[0]) if rows else 0
        labels = holds_labels([row[-1] for row in rows if len(row) == width])
        unlabeled = {1: TEXT, 2: SOURCE_AND_TARGET}
        found = ({1: TEXT, 2: TEXT_AND_LABEL, 3: SOURCE_TARGET_LANGUAGE} if labels else unlabeled).get(width)
    if found is None:
        raise InputError(f"{file}: what its columns hold is not clear: choose one or two with --columns, and --kind")
    return found


def read_first_keys(file: Path) -> set[str]:
    """Return the keys of the first line of a JSONL file."""
    from sightline.data.corpora.files import Counts, read_lines
    from sightline.storage import parse_object

    lines = read_lines(file, on_bad_utf8="replace", counts=Counts())
    first = next((line.text for line in lines if line.text and line.text.strip()), "{}")
    return set(parse_object(first.encode("utf-8")))


def sample_rows(file: Path, settings: "DataSettings") -> list[list[str]]:
    """Return the first rows of a table: the chosen columns, or all."""
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
    return [[row[at] for at in chosen] for row in filled if max(chosen) < len(row)] if chosen else filled


def holds_labels(cells: list[str]) -> bool:
    """Return whether the cells of a column are labels: short, and the same few ones over and over."""
    few = len(set(cells)) <= max(2, MAX_LABEL_SHARE * len(cells))
    return len(cells) > MIN_LABELED and few and max(map(len, cells)) <= MAX_LABEL_LENGTH


def kind_of(corpus: "Corpus") -> str:
    """Return what the rows of a corpus are."""
    from sightline.data.corpora.records import TEXT

    if corpus.fields == TEXT:
        return "text"
    return "labeled" if corpus.fields[-1] == "label" else "pairs"


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
