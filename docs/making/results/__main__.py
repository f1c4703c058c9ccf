"""`make results [ROW=…]`: run the trials of rows, record their results, and rewrite the tables."""

import argparse
import json
import sys
from pathlib import Path

from making.results.row import Row, Trial
from making.results.rows import ROWS
from making.results.table import full_tables, replace_section, summary_table
from making.results.trials import Folders, Record, digest, format_commands, run_trial
from sightline.storage import wait_for_lock

DOCS = Path(__file__).parents[2]
RECORDS, FULL, SHORT = DOCS / "results.json", DOCS / "results.md", DOCS.parent / "README.md"


def main() -> int:
    """Run the given rows, or all."""
    parser = argparse.ArgumentParser(prog="make results", description="Published results, one command per row.")
    parser.add_argument("row", nargs="*", help=", ".join(row.name for row in ROWS))
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs, outside the work tree")
    parser.add_argument("--trial", default="", help="run only trials whose name contains this, such as 'seed 2'")
    parser.add_argument("--only-tables", action="store_true", help="train nothing, only rewrite the tables")
    arguments = parser.parse_args()
    folders = Folders(arguments.data.resolve(), arguments.runs.resolve())
    unknown = sorted(set(arguments.row) - {row.name for row in ROWS})
    if unknown:
        parser.error(f"unknown row {', '.join(unknown)}: {', '.join(row.name for row in ROWS)}")
    chosen = [row for row in ROWS if not arguments.row or row.name in arguments.row]
    names = [trial.name for row in chosen for trial in row.trials]
    if not any(arguments.trial in name for name in names):
        parser.error(f"no trial is named {arguments.trial}: {', '.join(names)}")
    for row in [] if arguments.only_tables else chosen:
        run_row(row, folders, named=arguments.trial)
    with wait_for_lock(folders.runs):
        write_tables()
    return 0


def run_row(row: Row, folders: Folders, *, named: str = "") -> None:
    """Run the trials of a row that have no record yet, and record each as soon as it is scored.

    Only those whose name contains `named`: several machines may share a row.
    """
    if missing := row.missing(folders.data):
        sys.stderr.write(f"results: {row.name} is skipped: {folders.data} has no {', '.join(missing)}\n")
        return
    folder = folders.runs / row.name
    folder.mkdir(parents=True, exist_ok=True)
    if row.prepare:
        row.prepare(folders.data, folder)
    for trial in (one for one in row.trials if named in one.name):
        if is_recorded(row, trial):
            sys.stderr.write(f"results: {row.name}, {trial.name}: already done\n")
            continue
        sys.stderr.write(f"results: {row.name}, {trial.name}\n")
        record = run_trial(row, trial, folders)
        with wait_for_lock(folders.runs):  # other processes may be running other trials
            save_record(record)
            write_tables()


def load_records() -> list[dict[str, object]]:
    """Return all records."""
    return json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else []


def is_recorded(row: Row, trial: Trial) -> bool:
    """Tell whether a trial is recorded with the same commands and settings."""
    now = (row.name, trial.name, list(format_commands(row, trial)), digest(trial))
    return any(
        (record["row"], record["trial"], record["commands"], record["settings"]) == now for record in load_records()
    )


def save_record(record: Record) -> None:
    """Save a record, replacing an older one of the same trial."""
    others = [old for old in load_records() if (old["row"], old["trial"]) != (record.row, record.trial)]
    order = [(row.name, trial.name) for row in ROWS for trial in row.trials]
    records = [*others, record.to_mapping()]
    records.sort(key=lambda one: order.index(one_name) if (one_name := (one["row"], one["trial"])) in order else -1)
    RECORDS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tables() -> None:
    """Write the results into the documents."""
    for path, made in ((FULL, full_tables(ROWS, load_records())), (SHORT, summary_table(ROWS, load_records()))):
        path.write_text(replace_section(path.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
