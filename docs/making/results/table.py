"""The results tables: docs/results.md in full, a summary in the README."""

from collections.abc import Mapping, Sequence
from typing import Any

from making.results.row import Row

BEGIN, END = "<!-- results: made by `make results` -->", "<!-- end of results -->"

DETAILS = ("training", "memory", "commit", "date")

Kept = Mapping[str, Any]
"""A record of docs/results.json."""


def replace_section(text: str, made: str) -> str:
    """Replace the part of a document between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        raise SystemExit(f"results: the marks {BEGIN!r} and {END!r} are missing")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def full_tables(rows: Sequence[Row], kept: Sequence[Kept]) -> str:
    """Return every row with its commands, details and signatures."""
    return "\n\n".join(section(row, [record for record in kept if record["row"] == row.name]) for row in rows)


def section(row: Row, records: Sequence[Kept]) -> str:
    """Return the section of one row."""
    lines = [f"## {row.title}", "", f"`make results ROW={row.name}`"]
    lines += [f"Published: **{row.published}**."] if row.published else ["No published result is directly comparable."]
    if not records:
        return "\n\n".join([lines[0], " ".join(lines[2:]), "Not run yet."])
    names = ("", *(name.replace("_", " ") for name in (row.measure, *row.also)), *DETAILS)
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *(line(row, record) for record in records)]
    signatures = sorted({str(v) for record in records for k, v in scores(record).items() if k.endswith("signature")})
    typed = dict.fromkeys(one for found in group_by_setup(records).values() for one in found[0]["commands"])
    commands = ["```", *typed, "```"]  # shared commands once
    rest = [f"Signatures: {', '.join(f'`{one}`' for one in signatures)}."] if signatures else []
    return "\n\n".join([lines[0], " ".join(lines[2:]), "\n".join(table), *rest, "\n".join(commands)])


def line(row: Row, record: Kept) -> str:
    """Return the table line of one trial."""
    found = scores(record)
    others = (f"{float(str(found[name])):.{row.decimals}f}" for name in row.also)
    cells = (
        record["trial"], f"**{row.score(found):.{row.decimals}f}**", *others,
        f"{record['minutes']:.0f} min", f"{record['memory_mb']:,} MB", record["commit"], record["date"],
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def summary_table(rows: Sequence[Row], kept: Sequence[Kept]) -> str:
    """Return one line per row that has been run and does not fall short of what is published."""
    lines = ["| task | ours | published |", "|---|---|---|"]
    for row in (row for row in rows if not row.falls_short):
        groups = group_by_setup([record for record in kept if record["row"] == row.name])
        found = {name: [row.score(scores(record)) for record in records] for name, records in groups.items()}
        ours = "; ".join(f"{name}{' ' if name else ''}**{row.summary(values)}**" for name, values in found.items())
        if ours:
            lines.append(f"| {row.title} ({row.measure.replace('_', ' ')}) | {ours} | {row.published or '–'} |")
    return "\n".join(lines)


def group_by_setup(records: Sequence[Kept]) -> dict[str, list[Kept]]:
    """Group the records that differ only in their seed."""
    groups: dict[str, list[Kept]] = {}
    for record in records:
        groups.setdefault(str(record["trial"]).partition("seed")[0].strip(" ,"), []).append(record)
    return groups


def scores(record: Kept) -> Mapping[str, object]:
    """Return the output of `sightline evaluate`."""
    found: Mapping[str, object] = record["scores"]
    return found
