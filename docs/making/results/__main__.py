"""`make results [ROW=…]`: carry rows out, keep what came of them, and write the tables anew."""

import argparse
import json
import sys
from pathlib import Path

from making.results.carry_out import Places, Record, carried_out, digest, written
from making.results.row import Row, Trial
from making.results.rows import ROWS
from making.results.table import in_full, in_short, woven
from sightline.training.lock import taking_turns

DOCS = Path(__file__).parents[2]
KEPT, FULL, SHORT = DOCS / "results.json", DOCS / "results.md", DOCS.parent / "README.md"


def main() -> int:
    """Carry out the rows that are asked for, all if none is."""
    parser = argparse.ArgumentParser(prog="make results", description="Published results, one command a row.")
    parser.add_argument("row", nargs="*", help=", ".join(row.name for row in ROWS))
    parser.add_argument("--data", type=Path, required=True, help="the folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="where the runs are kept, outside the work tree")
    parser.add_argument("--trial", default="", help="only trials whose name has this in it, such as 'seed 2'")
    parser.add_argument("--only-tables", action="store_true", help="train nothing: write the tables anew")
    asked = parser.parse_args()
    places = Places(asked.data.resolve(), asked.runs.resolve())
    unknown = sorted(set(asked.row) - {row.name for row in ROWS})
    if unknown:
        parser.error(f"unknown row {', '.join(unknown)}: {', '.join(row.name for row in ROWS)}")
    chosen = [row for row in ROWS if not asked.row or row.name in asked.row]
    names = [trial.name for row in chosen for trial in row.trials]
    if not any(asked.trial in name for name in names):
        parser.error(f"no trial is named {asked.trial}: {', '.join(names)}")
    for row in [] if asked.only_tables else chosen:
        carry_out(row, places, named=asked.trial)
    with taking_turns(places.runs):
        write_tables()
    return 0


def carry_out(row: Row, places: Places, *, named: str = "") -> None:
    """Carry out the trials of a row that have not been, and keep each as soon as it is scored.

    Only those whose name has `named` in it: several processors may share a row.
    """
    if missing := row.missing(places.data):
        sys.stderr.write(f"results: {row.name} is left out: {places.data} has no {', '.join(missing)}\n")
        return
    folder = places.runs / row.name
    folder.mkdir(parents=True, exist_ok=True)
    if row.prepare:
        row.prepare(places.data, folder)
    for trial in (one for one in row.trials if named in one.name):
        if is_kept(row, trial):
            sys.stderr.write(f"results: {row.name}, {trial.name}: done before\n")
            continue
        sys.stderr.write(f"results: {row.name}, {trial.name}\n")
        record = carried_out(row, trial, places)
        with taking_turns(places.runs):  # other processes may have other parts of the rows
            keep(record)
            write_tables()


def kept() -> list[dict[str, object]]:
    """Return all records so far."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []


def is_kept(row: Row, trial: Trial) -> bool:
    """Tell whether a trial was carried out with the very same commands and settings; with others it is another one."""
    now = (row.name, trial.name, list(written(row, trial)), digest(trial))
    return any((record["row"], record["trial"], record["commands"], record["settings"]) == now for record in kept())


def keep(record: Record) -> None:
    """Keep a record in the place of an older one."""
    others = [old for old in kept() if (old["row"], old["trial"]) != (record.row, record.trial)]
    order = [(row.name, trial.name) for row in ROWS for trial in row.trials]
    records = [*others, record.to_mapping()]
    records.sort(key=lambda one: order.index(one_name) if (one_name := (one["row"], one["trial"])) in order else -1)
    KEPT.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tables() -> None:
    """Write what was found into the documents."""
    for path, made in ((FULL, in_full(ROWS, kept())), (SHORT, in_short(ROWS, kept()))):
        path.write_text(woven(path.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
