"""Corpora whose lines are records: two parallel files, or one file with tabs between its columns."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.text.counts import Counts
from sightline.text.files import Place, shown_path
from sightline.text.lines import Line, OnBadUTF8, read_lines
from sightline.text.record import Record


def read_parallel(source: Path, target: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Record]:
    """Yield pairs of lines, refusing at the end if one file has more of them."""
    suspect: int | None = None
    sides = (read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts) for path in (source, target))
    n_lines = [0, 0]
    for pair in zip_longest(*sides):
        for side, line in enumerate(pair):
            n_lines[side] += line is not None
        first, second = pair
        if first is None or second is None:
            continue  # all lines are counted, so that the refusal can say both numbers
        if suspect is None and looks_shifted(first, second):
            suspect = first.number
        if first.text is not None and second.text is not None:
            yield Record((first.text, second.text), Place(source, first.number))
    if n_lines[0] != n_lines[1]:
        hint = f"line {suspect:,} is the first that looks wrong" if suspect else "no line before the end looks wrong"
        raise InputError(
            f"{shown_path(source)} has {n_lines[0]:,} lines and {shown_path(target)} has {n_lines[1]:,}: parallel "
            f"files need the same number; {hint}"
        )


def looks_shifted(first: Line, second: Line) -> bool:
    """Tell whether two lines can hardly be translations of one another: one is blank, or much longer."""
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
    """Yield the wanted columns of every line; without `columns` the lines must have just the fields wanted."""
    numbered = all(name.isdecimal() for name in columns)
    has_header = (not numbered) if header is None else header
    places = [int(name) - 1 for name in columns] if numbered else None
    if places and min(places) < 0:
        raise InputError(f"{shown_path(path)}: columns are counted from 1")
    for line in read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts):
        place = Place(path, line.number)
        if line.number == 1 and has_header:
            places = places if numbered and columns else header_places(line, columns or fields, place)
        elif line.text is None:
            continue
        elif not line.text.strip():
            counts.add("blank")
        else:
            cells = line.text.split("\t")
            yield Record(tuple(chosen(cells, places, fields, place)), place)


def header_places(line: Line, columns: Sequence[str], place: Place) -> list[int]:
    """Return where the named columns stand, from the line with the names."""
    if line.text is None:
        raise InputError(f"{place}: the names of the columns cannot be read")
    names = [name.strip() for name in line.text.split("\t")]
    problems = [unknown_name(name, names, what="column") for name in columns if name not in names]
    problems += [f"the column {name!r} is there twice" for name in columns if names.count(name) > 1]
    if problems:
        given = ", ".join(repr(name[:60]) for name in names[:20])
        raise InputError(f"{place}: {'; '.join(problems)}: the first line names {given}")
    return [names.index(name) for name in columns]


def chosen(cells: list[str], places: list[int] | None, fields: Sequence[str], place: Place) -> list[str]:
    """Return the cells of a line that are wanted."""
    if not places:
        if len(cells) != len(fields):
            raise InputError(
                f"{place}: this line has {columns_of(cells)}, {len(fields)} are needed ({', '.join(fields)}): mend it, "
                "or say with data.columns which ones to take"
            )
        return cells
    if max(places) >= len(cells):
        raise InputError(
            f"{place}: this line has only {columns_of(cells)}, column {max(places) + 1} is wanted: mend it"
        )
    return [cells[column] for column in places]


def columns_of(cells: list[str]) -> str:
    """Return how many columns there are, in words."""
    return "1 column" if len(cells) == 1 else f"{len(cells)} columns"
