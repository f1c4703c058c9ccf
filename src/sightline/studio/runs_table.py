"""The runs in a folder, by id: ids from a browser are looked up here and never become paths."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from sightline.errors import SightlineError
from sightline.run.folder import MODEL, RUN_RECORD, is_run
from sightline.run.run_record import flatten, read_run_record
from sightline.run.snapshots import has_best_model, list_snapshots
from sightline.serving import Problem
from sightline.serving.api import model_id
from sightline.studio.runs_metrics import json_value
from sightline.training.metrics import FILE_NAME as METRICS

MAX_RUNS = 500
MAX_SNAPSHOTS = 100
MAX_SETTINGS = 300
MAX_VALUE = 200
STALLED_SECONDS = 300
"""A run that has not ended and writes nothing for so long is shown as stalled."""

DIGEST = re.compile(r"[0-9a-f]{64}")

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class RunRecord:
    """The contents of run.json when it was last read."""

    stamp: Stamp
    entries: Mapping[str, Any]


class RunsTable:
    """The runs of one folder, which may be a run itself. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._folders: dict[str, Path] = {}
        """Ids stay with their folders while the server runs."""
        self._records: dict[Path, RunRecord] = {}
        self._lock = threading.Lock()

    def folder(self, name: str) -> Path:
        """Return the folder of a run."""
        with self._lock:
            if name not in self._folders:
                self._scan()
            found = self._folders.get(name)
        if found is None or not self.is_inside(found) or not is_run(found):
            raise Problem(404, "there is no such run: GET /studio-api/runs lists them", code="run_not_found")
        return found

    def cards(self) -> list[dict[str, object]]:
        """Return the entry of each run for the list, newest first."""
        with self._lock:
            self._scan()
            known = [(name, folder) for name, folder in self._folders.items() if is_run(folder)]
            made = [self._card(name, folder) for name, folder in known if self.is_inside(folder)]
        return sorted(made, key=lambda card: (str(card["began"]), str(card["id"])), reverse=True)

    def settings(self, name: str) -> dict[str, str]:
        """Return the resolved settings of a run as readable text."""
        folder = self.folder(name)
        with self._lock:
            entries = self._run_record(folder)
        found = {**mapping(entries, "resolved"), "dataset": mapping(entries, "data")}
        found["environment"] = mapping(entries, "environment")
        return {key[:80]: format_setting(value) for key, value in list(flatten(flatten(found)).items())[:MAX_SETTINGS]}

    def steps(self, folder: Path) -> list[int]:
        """Return the steps of the snapshots inside a run."""
        found = [step for step, path in list_snapshots(folder).items() if self.is_inside(path)]
        return found[:MAX_SNAPSHOTS]

    def has_model(self, folder: Path) -> bool:
        """Tell whether a run has a best model inside it."""
        return has_best_model(folder) and self.is_inside(folder / MODEL)

    def is_inside(self, path: Path) -> bool:
        """Tell whether a path is inside the folder after links are resolved."""
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):  # a link to itself
            return False

    def _scan(self) -> None:
        known = set(self._folders.values())
        for folder in candidates(self.root):
            if len(self._folders) >= MAX_RUNS:
                return
            if folder not in known and is_run(folder) and self.is_inside(folder):
                self._folders[model_id(folder, self._folders)] = folder

    def _run_record(self, folder: Path) -> Mapping[str, Any]:
        """Return the contents of run.json, read again only when it changes; nothing of a broken one."""
        stamp = stamp_of(folder / RUN_RECORD)
        known = self._records.get(folder)
        if known is None or known.stamp != stamp:
            try:
                entries = read_run_record(folder) or {}
            except SightlineError:
                entries = {}
            self._records[folder] = known = RunRecord(stamp, entries)
        return known.entries

    def _card(self, name: str, folder: Path) -> dict[str, object]:
        entries = self._run_record(folder)
        resolved, outcome = mapping(entries, "resolved"), mapping(entries, "outcome")
        began, languages = entries.get("began"), mapping(resolved, "data").get("languages")
        scores = {str(key)[:60]: json_value(value) for key, value in list(mapping(outcome, "scores").items())[:20]}
        idle = time.time() - max(stamp_of(folder / file)[0] / 1e9 for file in (METRICS, RUN_RECORD))
        return {
            "id": name,
            "name": text(folder.name, 120),
            "task": text(resolved.get("task")),
            "languages": [text(code, 20) for code in languages[:100]] if isinstance(languages, list) else [],
            "began": text(began[-1]) if isinstance(began, list) and began else "",
            "ended": text(outcome.get("ended")),
            "stop_reason": text(outcome.get("stop_reason")),
            "state": "ended" if outcome else "training" if idle < STALLED_SECONDS else "stalled",
            "scores": {key: value for key, value in scores.items() if isinstance(value, int | float)},
            "snapshots": self.steps(folder),
            "has_best_model": self.has_model(folder),
            "best_step": best if type(best := mapping(outcome, "progress").get("best_step")) is int else None,
        }


def candidates(root: Path) -> Iterator[Path]:
    """Yield possible runs: the folder itself, or its subfolders by name."""
    if is_run(root):
        yield root
        return
    try:
        yield from sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return


def stamp_of(path: Path) -> Stamp:
    """Return a stamp that changes when a file is replaced or rewritten."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def mapping(entries: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry that should be an object, or an empty one."""
    found = entries.get(name)
    return found if isinstance(found, dict) else {}


def text(value: object, max_length: int = 60) -> str:
    """Return a text, truncated; empty if it is not a text."""
    return value[:max_length] if isinstance(value, str) else ""


def format_setting(value: object) -> str:
    """Return a setting as readable text; of absolute paths only the file name."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        if DIGEST.fullmatch(value):
            return f"{value[:12]}…"
        return (PurePath(value).name if PurePath(value).is_absolute() else value)[:MAX_VALUE]
    return json.dumps(value, ensure_ascii=False)[:MAX_VALUE]
