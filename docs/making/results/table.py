"""The table of results: docs/results.md in full, and its short form in the README."""

from collections.abc import Mapping, Sequence
from typing import Any

from making.results.row import Row

BEGIN, END = "<!-- results: made by `make results` -->", "<!-- end of results -->"

CIRCUMSTANCES = ("training", "memory", "commit", "date")

Kept = Mapping[str, Any]
"""A record, as it stands in docs/results.json."""


def woven(text: str, made: str) -> str:
    """Return a document with the part between the two marks made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        raise SystemExit(f"results: the marks {BEGIN!r} and {END!r} are missing")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def in_full(rows: Sequence[Row], kept: Sequence[Kept]) -> str:
    """Return every row with its commands, circumstances and signatures."""
    return "\n\n".join(section(row, [record for record in kept if record["row"] == row.name]) for row in rows)


def section(row: Row, records: Sequence[Kept]) -> str:
    """Return one row as a section of its own."""
    lines = [f"## {row.title}", "", f"`make results ROW={row.name}`"]
    lines += [f"Published: **{row.published}**."] if row.published else ["Nothing published is measured the same way."]
    if not records:
        return "\n\n".join([lines[0], " ".join(lines[2:]), "Not run yet."])
    names = ("", *(name.replace("_", " ") for name in (row.measure, *row.also)), *CIRCUMSTANCES)
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *(line(row, record) for record in records)]
    signatures = sorted({str(v) for record in records for k, v in scores(record).items() if k.endswith("signature")})
    typed = dict.fromkeys(one for found in alike(records).values() for one in found[0]["commands"])
    commands = ["```", *typed, "```"]  # what several begin with stands there once
    rest = [f"Signatures: {', '.join(f'`{one}`' for one in signatures)}."] if signatures else []
    return "\n\n".join([lines[0], " ".join(lines[2:]), "\n".join(table), *rest, "\n".join(commands)])


def line(row: Row, record: Kept) -> str:
    """Return what became of one trial."""
    found = scores(record)
    others = (f"{float(str(found[name])):.{row.places}f}" for name in row.also)
    cells = (
        record["trial"], f"**{row.score(found):.{row.places}f}**", *others,
        f"{record['minutes']:.0f} min", f"{record['memory_mb']:,} MB", record["commit"], record["date"],
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def in_short(rows: Sequence[Row], kept: Sequence[Kept]) -> str:
    """Return a line for each row that has been run."""
    lines = ["| task | ours | published |", "|---|---|---|"]
    for row in rows:
        groups = alike([record for record in kept if record["row"] == row.name])
        found = {name: [row.score(scores(record)) for record in records] for name, records in groups.items()}
        ours = "; ".join(f"{name}{' ' if name else ''}**{row.summary(values)}**" for name, values in found.items())
        if ours:
            lines.append(f"| {row.title} ({row.measure.replace('_', ' ')}) | {ours} | {row.published or '–'} |")
    return "\n".join(lines)


def alike(records: Sequence[Kept]) -> dict[str, list[Kept]]:
    """Return the records by what they are of: those of one thing differ in their seeds alone."""
    groups: dict[str, list[Kept]] = {}
    for record in records:
        groups.setdefault(str(record["trial"]).partition("seed")[0].strip(" ,"), []).append(record)
    return groups


def scores(record: Kept) -> Mapping[str, object]:
    """Return what `sightline evaluate` said."""
    found: Mapping[str, object] = record["scores"]
    return found
