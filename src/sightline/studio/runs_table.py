"""The runs in a folder, each under an id: what a browser names is looked up here and never becomes a path."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from sightline.errors import SightlineError
from sightline.run.folder import JOURNAL, MODEL, is_run
from sightline.run.journal import flat, read_journal
from sightline.run.snapshots import has_kept_model, snapshots
from sightline.serving import Problem
from sightline.serving.api import model_id
from sightline.studio.runs_metrics import plain
from sightline.training.metrics import FILE_NAME as METRICS

MOST_RUNS = 500
MOST_SNAPSHOTS = 100
MOST_SETTINGS = 300
LONGEST_VALUE = 200
QUIET_SECONDS = 300
"""After so long without a word, a run that has not ended is no longer called one that is training."""

DIGEST = re.compile(r"[0-9a-f]{64}")

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Journal:
    """What run.json said when it was last read."""

    stamp: Stamp
    entries: Mapping[str, Any]


class RunsTable:
    """The runs of one folder, which may be a run itself. May be asked from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._folders: dict[str, Path] = {}
        """Ids stay with their folders as long as the server lives."""
        self._journals: dict[Path, Journal] = {}
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
        """Return what a list says of each run, the newest first."""
        with self._lock:
            self._scan()
            known = [(name, folder) for name, folder in self._folders.items() if is_run(folder)]
            made = [self._card(name, folder) for name, folder in known if self.is_inside(folder)]
        return sorted(made, key=lambda card: (str(card["began"]), str(card["id"])), reverse=True)

    def settings(self, name: str) -> dict[str, str]:
        """Return all settings with which a run was really done, as text for people."""
        folder = self.folder(name)
        with self._lock:
            entries = self._journal(folder)
        found = {**mapping(entries, "resolved"), "read": mapping(entries, "data")}
        found["made with"] = mapping(entries, "environment")
        return {key[:80]: shown(value) for key, value in list(flat(flat(found)).items())[:MOST_SETTINGS]}

    def steps(self, folder: Path) -> list[int]:
        """Return the steps of which a run has snapshots that lie in it."""
        found = [step for step, place in snapshots(folder).items() if self.is_inside(place)]
        return found[:MOST_SNAPSHOTS]

    def has_model(self, folder: Path) -> bool:
        """Tell whether a run has kept a model that lies in it."""
        return has_kept_model(folder) and self.is_inside(folder / MODEL)

    def is_inside(self, place: Path) -> bool:
        """Tell whether a place lies in the folder, wherever links lead."""
        try:
            return place.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):  # a link that leads to itself
            return False

    def _scan(self) -> None:
        known = set(self._folders.values())
        for folder in candidates(self.root):
            if len(self._folders) >= MOST_RUNS:
                return
            if folder not in known and is_run(folder) and self.is_inside(folder):
                self._folders[model_id(folder, self._folders)] = folder

    def _journal(self, folder: Path) -> Mapping[str, Any]:
        """Return what run.json says, read again only when it is another one; of a broken one nothing is told."""
        stamp = stamp_of(folder / JOURNAL)
        known = self._journals.get(folder)
        if known is None or known.stamp != stamp:
            try:
                entries = read_journal(folder) or {}
            except SightlineError:
                entries = {}
            self._journals[folder] = known = Journal(stamp, entries)
        return known.entries

    def _card(self, name: str, folder: Path) -> dict[str, object]:
        entries = self._journal(folder)
        resolved, outcome = mapping(entries, "resolved"), mapping(entries, "outcome")
        began, languages = entries.get("began"), mapping(resolved, "data").get("languages")
        scores = {str(key)[:60]: plain(value) for key, value in list(mapping(outcome, "scores").items())[:20]}
        silent = time.time() - max(stamp_of(folder / file)[0] / 1e9 for file in (METRICS, JOURNAL))
        return {
            "id": name,
            "name": text(folder.name, 120),
            "task": text(resolved.get("task")),
            "languages": [text(code, 20) for code in languages[:100]] if isinstance(languages, list) else [],
            "began": text(began[-1]) if isinstance(began, list) and began else "",
            "ended": text(outcome.get("ended")),
            "ending": text(outcome.get("ending")),
            "state": "ended" if outcome else "training" if silent < QUIET_SECONDS else "silent",
            "scores": {key: value for key, value in scores.items() if isinstance(value, int | float)},
            "snapshots": self.steps(folder),
            "kept": self.has_model(folder),
            "best_step": best if type(best := mapping(outcome, "progress").get("best_step")) is int else None,
        }


def candidates(root: Path) -> Iterator[Path]:
    """Yield what may be runs: the folder itself, or those in it, by name."""
    if is_run(root):
        yield root
        return
    try:
        yield from sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return


def stamp_of(path: Path) -> Stamp:
    """Return what tells a file from the one before: when it was written first of all."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def mapping(entries: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry that should be an object, and nothing where it is not."""
    found = entries.get(name)
    return found if isinstance(found, dict) else {}


def text(value: object, longest: int = 60) -> str:
    """Return a text of a file, or nothing where there is none."""
    return value[:longest] if isinstance(value, str) else ""


def shown(value: object) -> str:
    """Return a setting for people; of files elsewhere on this machine only the name is told."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        if DIGEST.fullmatch(value):
            return f"{value[:12]}…"
        return (PurePath(value).name if PurePath(value).is_absolute() else value)[:LONGEST_VALUE]
    return json.dumps(value, ensure_ascii=False)[:LONGEST_VALUE]
