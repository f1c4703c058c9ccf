"""Tables: TSV and CSV files read as records, with their dialect (delimiter, quoting, header line) detected.

A TSV is plain unless its quoting is beyond doubt: in plain text a quotation mark is text. A CSV is quoted unless that
cannot be. Quotes within a quoted cell are doubled, and a quoted cell may hold delimiters and line breaks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sightline.config import unknown_name
from sightline.data.corpora.files import (
    BLOCK_BYTES,
    MAX_LINE_BYTES,
    Counts,
    Line,
    Location,
    OnBadUTF8,
    display_path,
    file_state,
    read_lines,
)
from sightline.data.corpora.records import Record
from sightline.errors import InputError

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""The delimiters that are looked for, by the names that settings and messages use."""


@dataclass(frozen=True)
class TableSettings:
    """How a table is read; what is None is detected."""

    fields: tuple[str, ...]
    """The fields a row must give."""
    columns: tuple[str, ...] = ()
    """The columns to take, by name or number from 1; none: all, which must be as many as the fields."""
    delimiter: str | None = None
    quoting: bool | None = None
    header: bool | None = None

    @property
    def numbered(self) -> bool:
        """Whether the columns are given by number."""
        return all(name.isdecimal() for name in self.columns)


@dataclass(frozen=True)
class Dialect:
    """How the cells of a table are written."""

    delimiter: str
    quoting: bool
    header: tuple[str, ...] | None = None
    """The names of the columns, if the first line that is not blank has them."""
    header_line: int = 1
    """The line of the header, for messages."""
    separator_line: str | None = None
    """Excel's first line, such as `sep=;`, which is no row."""
    unsound_line: int | None = None
    """The first line with a quote out of place, if that is why quotes are text."""

    def describe(self) -> str:
        """Return the dialect in a few words."""
        names = [name for name, mark in DELIMITERS.items() if mark == self.delimiter]
        header = "no header line"
        if self.header is not None:
            shown = ", ".join(name[:30] for name in self.header[:6]) + (", …" if len(self.header) > 6 else "")
            header = f"header line: {shown}"
        delimiter = names[0] if names else repr(self.delimiter)
        quoting = "quoted" if self.quoting else "not quoted"
        if self.unsound_line is not None:
            quoting += f" (line {self.unsound_line} has a quote out of place)"
        return f"{delimiter}-separated, {quoting}, {header}"


class TableRow(NamedTuple):
    """The cells of a row, the line it starts in, and its text as it stands in the file."""

    line: int
    cells: list[str]
    text: str


def read_table(
    path: Path, table: TableSettings, *, csv: bool, on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the selected columns of every row; without `columns` a row must have exactly the fields."""
    dialect = detect_dialect(path, table, csv=csv)
    header = dialect.header
    indices: list[int] | None = None
    if table.columns and table.numbered:
        indices = [int(name) - 1 for name in table.columns]
        if min(indices) < 0:
            raise InputError(f"{display_path(path)}: columns are counted from 1")
    elif header is not None and table.columns:
        indices = find_columns(header, table.columns, Location(path, dialect.header_line))
    elif header is not None:
        names = {name.casefold(): at for at, name in enumerate(header)}
        indices = [names[field] for field in table.fields] if set(table.fields) <= names.keys() else None
    lines = read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts)
    before_header = header is not None
    for row in read_rows(lines, dialect, path):
        if not row.text.strip():
            counts.add("blank")
            continue
        if before_header:
            before_header = False
            continue
        location = Location(path, row.line)
        cells = tuple(select_cells(row.cells, indices, table, header, location))
        yield Record(cells, location, raw=row.text)


def read_rows(lines: Iterable[Line], dialect: Dialect, path: Path) -> Iterator[TableRow]:
    """Yield the rows of a table, its header among them; lines that cannot be read are left out."""
    delimiter = dialect.delimiter
    if dialect.separator_line is not None:
        lines = islice(lines, 1, None)
    if not dialect.quoting:
        for line in lines:
            if line.text is not None:
                yield TableRow(line.number, line.text.split(delimiter), line.text)
        return
    pending = iter(lines)
    for line in pending:
        if line.text is None:
            continue
        if '"' not in line.text:
            yield TableRow(line.number, line.text.split(delimiter), line.text)
        else:
            yield read_quoted_row(line.number, line.text, pending, delimiter, path)


def first_row(rows: Iterable[TableRow]) -> TableRow | None:
    """Return the first row that is not blank: the header, if there is one."""
    return next((row for row in rows if row.text.strip()), None)


QUOTED_PART = re.compile(r'[^"]*+(?:""[^"]*+)*+')
"""The text of a quoted cell up to its closing quote, or to the end of the line; linear in its length."""


def read_quoted_row(number: int, text: str, following: Iterator[Line], delimiter: str, path: Path) -> TableRow:
    """Return a row with quoted cells, which may go on in the following lines."""
    cells: list[str] = []
    row = [text]
    size = len(text)
    at = 0
    while True:
        if not text.startswith('"', at):
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            cells.append(text[at:end])
        else:
            parts: list[str] = []
            at += 1
            while (match := QUOTED_PART.match(text, at)) and match.end() == len(text):  # no closing quote in this line
                parts.append(match[0])
                line = next(following, None)
                size += len(line.text) + 1 if line is not None and line.text is not None else 0
                if line is None or line.text is None or size > MAX_LINE_BYTES:
                    raise refuse_quote(path, number, "the quote of a cell that starts here is not closed")
                text, at = line.text, 0
                row.append(text)
            parts.append(match[0] if match else "")
            cells.append("\n".join(parts).replace('""', '"'))
            end = (match.end() if match else at) + 1
            if end < len(text) and text[end] != delimiter:
                raise refuse_quote(
                    path, number + len(row) - 1, f"a quoted cell is followed by {text[end : end + 10]!r}"
                )
        if end >= len(text):
            return TableRow(number, cells, "\n".join(row))
        at = end + 1


def refuse_quote(path: Path, line: int, reason: str) -> InputError:
    """Return the error for a quote that is out of place."""
    return InputError(
        f"{Location(path, line)}: {reason}: fix it (a quote within a quoted cell is doubled)",
        setting="data.quoting",
        advice="set {} to false if quotes are text",
    )


def find_columns(header: Sequence[str], columns: Sequence[str], location: Location) -> list[int]:
    """Return the indices of the named columns."""
    names = list(header)
    problems = [unknown_name(name, names, what="column") for name in columns if name not in names]
    problems += [f"duplicate column {name!r}" for name in columns if names.count(name) > 1]
    if problems:
        raise InputError(f"{location}: {'; '.join(problems)}: the header has {quote_names(header)}")
    return [names.index(name) for name in columns]


def quote_names(names: Sequence[str]) -> str:
    """Return names for an error message."""
    return ", ".join(repr(name[:60]) for name in names[:20])


def select_cells(
    cells: list[str], indices: list[int] | None, table: TableSettings, header: Sequence[str] | None, location: Location
) -> list[str]:
    """Return the selected cells of a row."""
    fields = table.fields
    if indices is None:
        if len(cells) != len(fields):
            named = f"; the header has {quote_names(header)}" if header else ""
            raise InputError(
                f"{location}: this line has {count_columns(cells)}, {len(fields)} are needed ({', '.join(fields)})"
                f"{named}: fix it",
                setting="data.columns",
                advice="select columns with {}",
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


SAMPLE_ROWS, SAMPLE_BLOCKS = 5_000, 4
"""What a dialect is detected from: the beginning of the file, in lines and megabytes."""


def detect_dialect(path: Path, table: TableSettings, *, csv: bool) -> Dialect:
    """Return the dialect of a file, with what the settings say taken from them."""
    return detect_dialect_of(path, file_state(path), table, csv=csv)


@lru_cache(maxsize=64)
def detect_dialect_of(path: Path, state: tuple[int, int], table: TableSettings, *, csv: bool) -> Dialect:  # noqa: ARG001
    """Detect the dialect of a file in a given state: a corpus is read several times."""
    lines = read_sample(path)
    separator_line = find_separator_line(lines) if csv else None
    separator = None
    if separator_line is not None:
        separator, lines = separator_line.strip(' "\n')[len("sep=")], lines[1:]
    delimiter = table.delimiter or separator or (detect_delimiter(lines, table, path) if csv else "\t")
    quoting = detect_quoting(lines, delimiter, path, csv=csv) if table.quoting is None else table.quoting
    rows = sample_rows(lines, Dialect(delimiter, quoting), path)
    cells = [row.cells for row in rows if row.text.strip()]
    has_header = bool(table.columns) and not table.numbered if table.header is None else table.header
    if table.header is None and csv and not has_header:
        has_header = looks_like_header(cells, table)
    unsound_line = find_unsound_line(lines, delimiter, path) if csv and table.quoting is None and not quoting else None
    dialect = Dialect(delimiter, quoting, separator_line=separator_line, unsound_line=unsound_line)
    if not has_header:
        return dialect
    header = first_row(rows)
    if header is None:
        raise InputError(f"{Location(path, 1)}: the header line cannot be read")
    names = tuple(name.strip() for name in header.cells)
    return replace(dialect, header=names, header_line=header.line)


SEPARATOR_LINE = re.compile(r'"?sep=[^\w" ]"? *', re.IGNORECASE)


def find_separator_line(lines: list[Line]) -> str | None:
    """Return the first line if it is one that tells Excel the delimiter: `sep=;`."""
    text = lines[0].text if lines else None
    return text if text is not None and SEPARATOR_LINE.fullmatch(text) else None


def read_sample(path: Path) -> list[Line]:
    """Return the first lines of a file; errors in them are left to the reader."""
    lines = read_lines(path, on_bad_utf8="replace", counts=Counts(), max_blocks=SAMPLE_BLOCKS)
    sample = list(islice(lines, SAMPLE_ROWS))
    cut = len(sample) < SAMPLE_ROWS and file_state(path)[0] > SAMPLE_BLOCKS * BLOCK_BYTES
    return sample[:-1] if cut else sample


def sample_rows(lines: list[Line], dialect: Dialect, path: Path) -> list[TableRow]:
    """Return the rows of a sample up to the first that cannot be read; its last one may be cut."""
    rows: list[TableRow] = []
    with suppress(InputError):
        rows.extend(read_rows(lines, dialect, path))
    return rows


MAX_RESTARTS = 5
"""Quotes out of place after which rows over several lines are still looked for: each looks at the lines anew."""


def sound_rows(lines: list[Line], dialect: Dialect, path: Path) -> list[TableRow]:
    """Return the rows of a sample but for those with a quote out of place."""
    readable = [line for line in lines if line.text is not None]
    rows: list[TableRow] = []
    at = 0
    for _ in range(MAX_RESTARTS):
        found = sample_rows(readable[at:], dialect, path)
        rows += found
        at += count_lines(found) + 1  # beyond the line in which the unsound row begins
    return rows + [row for line in readable[at:] for row in sample_rows([line], dialect, path)]


def find_unsound_line(lines: list[Line], delimiter: str, path: Path) -> int | None:
    """Return the first line in which a row with a quote out of place begins."""
    readable = [line for line in lines if line.text is not None]
    n_lines = count_lines(sample_rows(readable, Dialect(delimiter, quoting=True), path))
    return readable[n_lines].number if n_lines < len(readable) else None


def count_lines(rows: list[TableRow]) -> int:
    """Return how many lines rows have together."""
    return sum(row.text.count("\n") + 1 for row in rows)


def detect_delimiter(lines: list[Line], table: TableSettings, path: Path) -> str:
    """Return the delimiter that splits most rows into the same number of columns, two or more.

    A row with a quote out of place counts against it; if no delimiter is left, quotes are taken for text.
    """

    def fit(delimiter: str, *, quoting: bool) -> tuple[float, bool]:
        rows = sound_rows(lines, Dialect(delimiter, quoting), path)
        columns, share = find_common_columns(rows)
        if columns < 2:
            return (0.0, False)
        return (share * count_lines(rows) / len(lines), columns == len(table.columns or table.fields))

    fits = {mark: fit(mark, quoting=table.quoting is not False) for mark in DELIMITERS.values()}
    if not any(share for share, _ in fits.values()):
        fits = {mark: fit(mark, quoting=False) for mark in DELIMITERS.values()}
    return max(fits, key=lambda mark: fits[mark])  # the first of the best


def find_common_columns(rows: list[TableRow]) -> tuple[int, float]:
    """Return the number of columns that most rows have, and their share."""
    numbers = Counter(len(row.cells) for row in rows if row.text.strip())
    columns, count = max(numbers.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
    return columns, count / max(1, numbers.total())


def detect_quoting(lines: list[Line], delimiter: str, path: Path, *, csv: bool) -> bool:
    """Return whether quotes are no text: in a CSV if that can be, in a TSV only if it is beyond doubt."""
    if not csv:
        return is_surely_quoted(lines, delimiter, path)
    ways = (may_be_quoted, is_mostly_quoted, needs_quotes)
    return any(is_quoted(lines, delimiter, path) for is_quoted in ways)


MIN_CUT_SAMPLE = 100
"""Lines of a sample whose last row may go on after its end."""


def may_be_quoted(lines: list[Line], delimiter: str, path: Path) -> bool:
    """Return whether no quote of a sample is out of place: one that stays open at its end is not."""
    try:
        for _ in read_rows(lines, Dialect(delimiter, quoting=True), path):
            pass
    except InputError:
        read = sample_rows(lines, Dialect(delimiter, quoting=True), path)
        rest = len(lines) - sum(row.text.count("\n") + 1 for row in read)
        # A cell may span the end of the sample, but hardly half of it.
        return len(lines) >= MIN_CUT_SAMPLE and rest < len(lines) / 2
    return True


MIN_QUOTED = 0.9
"""Share of quoted lines from which a quote out of place is a mistake: the reader refuses it with its advice."""


def is_mostly_quoted(lines: list[Line], delimiter: str, path: Path) -> bool:
    r"""Return whether nearly all lines have only quoted cells and numbers, some with quotes out of place (\")."""
    dialect = Dialect(delimiter, quoting=True)
    n_lines = n_quoted = n_odd = 0
    for line in lines:
        if line.text is None or not line.text.strip():
            continue
        n_lines += 1
        rows = sample_rows([line], dialect, path)
        n_quoted += any(has_only_quoted(row, delimiter) for row in rows)
        n_odd += not rows and line.text.startswith('"') and line.text.endswith('"') and f'"{delimiter}"' in line.text
    return n_quoted + n_odd >= MIN_QUOTED * n_lines


def needs_quotes(lines: list[Line], delimiter: str, path: Path) -> bool:
    """Return whether more rows have quotes that they need than have quotes out of place: these are mistakes."""
    rows = sound_rows(lines, Dialect(delimiter, quoting=True), path)
    columns, _ = find_common_columns(rows)
    n_needed = sum(
        len(row.cells) == columns
        and not is_several_rows(row, delimiter)
        and any(
            quoted and is_special(cell, delimiter)
            for cell, quoted in zip(row.cells, mark_quoted(row, delimiter), strict=True)
        )
        for row in rows
    )
    n_unsound = sum(line.text is not None for line in lines) - count_lines(rows)
    return n_needed > n_unsound


def is_special(cell: str, delimiter: str) -> bool:
    """Return whether a cell must be quoted: it holds a quote, a delimiter or a line break."""
    return any(mark in cell for mark in ('"', delimiter, "\n"))


def has_only_quoted(row: TableRow, delimiter: str) -> bool:
    """Return whether all cells of a row are quoted but for numbers, and one is."""
    marks = mark_quoted(row, delimiter)
    plain = [cell for cell, quoted in zip(row.cells, marks, strict=True) if not quoted]
    return any(marks) and all(not cell or is_number(cell) for cell in plain)


def is_surely_quoted(lines: list[Line], delimiter: str, path: Path) -> bool:
    """Return whether quotes are used as spreadsheets use them, in every cell that has one.

    Either only cells are quoted that need it (they hold a delimiter, a line break or a doubled quote), or all cells of
    a column are. A cell with a quote that is not quoted, or a quoted one beside others that are not, is text; so is a
    quotation over several lines that are rows without it.
    """
    if not any(line.text and '"' in line.text for line in lines) or not may_be_quoted(lines, delimiter, path):
        return False
    rows = [row for row in sample_rows(lines, Dialect(delimiter, quoting=True), path) if row.text.strip()]
    if len({len(row.cells) for row in rows}) != 1 or any(is_several_rows(row, delimiter) for row in rows):
        return False
    cells = [
        (column, cell, quoted)
        for row in rows
        for column, (cell, quoted) in enumerate(zip(row.cells, mark_quoted(row, delimiter), strict=True))
    ]
    if any('"' in cell for _, cell, quoted in cells if not quoted):
        return False
    if all(is_special(cell, delimiter) for _, cell, quoted in cells if quoted):
        return any(quoted for *_, quoted in cells)
    never_plain = {column for column, *_ in cells} - {column for column, cell, quoted in cells if cell and not quoted}
    return len(rows) > 1 and any(quoted and column in never_plain for column, _, quoted in cells)


def is_several_rows(row: TableRow, delimiter: str) -> bool:
    """Return whether each line of a row over several lines has as many columns as the row if quotes are text."""
    lines = [line for line in row.text.split("\n") if line.strip()]
    return len(lines) > 1 and all(line.count(delimiter) + 1 == len(row.cells) for line in lines)


def mark_quoted(row: TableRow, delimiter: str) -> list[bool]:
    """Return which cells of a row are quoted in its text."""
    marks, at = [], 0
    for cell in row.cells:
        quoted = row.text.startswith('"', at)
        marks.append(quoted)
        at += len(cell) + (2 + cell.count('"') if quoted else 0) + len(delimiter)
    return marks


HEADER_NAMES = frozenset(
    name
    for names in (
        "source target src tgt trg translation original reference language lang pair text texts sentence sentence1",
        "sentence2 premise hypothesis question answer question1 question2 label labels class category sentiment topic",
        "intent score id index idx key english german french spanish italian portuguese dutch russian chinese japanese",
        "arabic turkish polish en de fr es it pt nl ru zh ja ar tr pl eng deu fra spa",
    )
    for name in names.split()
)
"""Names of columns that are no sentence of a corpus."""
MIN_HEADER_ROWS = 20
"""Rows from which the labels of a table tell whether its first line is a header."""


def looks_like_header(rows: list[list[str]], table: TableSettings) -> bool:
    """Return whether the first row holds names: known ones, a word above numbers, or a label that never comes back."""
    if len(rows) < 2:
        return False
    names = [cell.strip() for cell in rows[0]]
    lowered = {name.casefold() for name in names}
    if not all(names) or len(lowered) < len(names) or not all(re.fullmatch(r"\w[\w .-]{0,39}", n) for n in names):
        return False
    if set(table.fields) <= lowered or lowered <= HEADER_NAMES:
        return True
    rest = [row for row in rows[1:] if len(row) == len(names)]
    for column, name in enumerate(names):
        if rest and not is_number(name) and all(is_number(row[column]) for row in rest):
            return True
    if table.fields[-1] != "label" or len(rest) < MIN_HEADER_ROWS:
        return False
    at = int(table.columns[-1]) - 1 if table.columns else len(names) - 1
    labels = Counter(row[at] for row in rest) if 0 <= at < len(names) else Counter()
    return bool(labels) and names[at] not in labels and min(labels.values()) > 1


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number."""
    return re.fullmatch(r"\s*-?\d+([.,]\d+)?\s*", cell) is not None
