"""Read parallel files and TSV files: one record per line."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.text.counts import Counts
from sightline.text.files import Location, display_path
from sightline.text.lines import Line, OnBadUTF8, read_lines
from sightline.text.record import Record


def read_parallel(source: Path, target: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Record]:
    """Yield pairs of lines; files of different length are refused at the end."""
    suspect: int | None = None
    sides = (read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts) for path in (source, target))
    n_lines = [0, 0]
    for pair in zip_longest(*sides):
        for side, line in enumerate(pair):
            n_lines[side] += line is not None
        first, second = pair
        if first is None or second is None:
            continue  # count all lines, for the error message
        if suspect is None and looks_misaligned(first, second):
            suspect = first.number
        if first.text is not None and second.text is not None:
            yield Record((first.text, second.text), Location(source, first.number))
    if n_lines[0] != n_lines[1]:
        hint = f"line {suspect:,} is the first that looks misaligned" if suspect else "no line looks misaligned"
        raise InputError(
            f"{display_path(source)} has {n_lines[0]:,} lines and {display_path(target)} has {n_lines[1]:,}: parallel "
            f"files need the same number; {hint}"
        )


def looks_misaligned(first: Line, second: Line) -> bool:
    """Return whether two lines are unlikely to be translations of each other: one is blank, or much longer."""
    if first.text is None or second.text is None:
        return False
    short, long = sorted((len(first.text.strip()), len(second.text.strip())))
    return long > 4 * short + 20 or (short == 0 and long > 0)


def read_tsv(
    path: Path,
    *,
    columns: Sequence[str],
    fields: Sequence[str],
    header: bool | None,
    on_bad_utf8: OnBadUTF8,
    counts: Counts,
) -> Iterator[Record]:
    """Yield the selected columns of every line; without `columns` a line must have exactly the fields."""
    numbered = all(name.isdecimal() for name in columns)
    has_header = (not numbered) if header is None else header
    indices = [int(name) - 1 for name in columns] if numbered else None
    if indices and min(indices) < 0:
        raise InputError(f"{display_path(path)}: columns are counted from 1")
    for line in read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts):
        location = Location(path, line.number)
        if line.number == 1 and has_header:
            indices = indices if numbered and columns else find_columns(line, columns or fields, location)
        elif line.text is None:
            continue
        elif not line.text.strip():
            counts.add("blank")
        else:
            cells = line.text.split("\t")
            yield Record(tuple(select_cells(cells, indices, fields, location)), location)


def find_columns(line: Line, columns: Sequence[str], location: Location) -> list[int]:
    """Return the indices of the named columns, from the header line."""
    if line.text is None:
        raise InputError(f"{location}: the header line cannot be read")
    names = [name.strip() for name in line.text.split("\t")]
    problems = [unknown_name(name, names, what="column") for name in columns if name not in names]
    problems += [f"duplicate column {name!r}" for name in columns if names.count(name) > 1]
    if problems:
        given = ", ".join(repr(name[:60]) for name in names[:20])
        raise InputError(f"{location}: {'; '.join(problems)}: the header has {given}")
    return [names.index(name) for name in columns]


def select_cells(cells: list[str], indices: list[int] | None, fields: Sequence[str], location: Location) -> list[str]:
    """Return the selected cells of a line."""
    if not indices:
        if len(cells) != len(fields):
            raise InputError(
                f"{location}: this line has {count_columns(cells)}, {len(fields)} are needed ({', '.join(fields)}): "
                "fix it, or select columns with data.columns"
            )
        return cells
    if max(indices) >= len(cells):
        raise InputError(
            f"{location}: this line has only {count_columns(cells)}, column {max(indices) + 1} is needed: fix it"
        )
    return [cells[column] for column in indices]


def count_columns(cells: list[str]) -> str:
    """Return the number of columns, for an error message."""
    return "1 column" if len(cells) == 1 else f"{len(cells)} columns"
