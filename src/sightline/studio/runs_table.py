"""The runs in a folder, by id, and their metrics, read incrementally while a run may be writing them."""

import json
import math
import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from sightline.errors import ModelFileError, SightlineError
from sightline.runs.folder import MODEL, RUN_RECORD, has_best_model, is_run, list_snapshots
from sightline.runs.run_record import flatten, read_run_record
from sightline.serving.api import model_id
from sightline.serving.http import Problem
from sightline.storage import open_regular
from sightline.tasks import TASKS, Task
from sightline.training.metrics import METRICS
from sightline.training.state import Metric

MAX_RUNS = 500
MAX_SNAPSHOTS = 100
MAX_SETTINGS = 300
MAX_VALUE = 200
STALLED_SECONDS = 300
"""A run that has not ended and writes nothing for so long is shown as stalled."""

DIGEST = re.compile(r"[0-9a-f]{64}")

Stamp = tuple[int, int, int]
"""Time of the last change, size and inode of a file."""


@dataclass(frozen=True)
class RunRecord:
    """The contents of run.json when it was last read."""

    stamp: Stamp
    entries: Mapping[str, Any]


class RunsTable:
    """The runs of one folder, which may be a run itself. Thread-safe."""

    def __init__(self, root: Path, *, models: Mapping[str, Path] | None = None) -> None:
        """`models` are the folders of the server's models by id: a run tells which of them it trained."""
        self.root = root.resolve()
        self._models = {name: folder.resolve() for name, folder in (models or {}).items()}
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
        found = {**get_object(entries, "resolved"), "dataset": get_object(entries, "data")}
        found["environment"] = get_object(entries, "environment")
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
        resolved, outcome = get_object(entries, "resolved"), get_object(entries, "outcome")
        smoothing = get_object(resolved, "training").get("label_smoothing")
        began, languages = entries.get("began"), read_languages(resolved)
        task = TASKS.get(short_text(resolved.get("task")))
        scores = {str(key)[:60]: json_value(value) for key, value in list(get_object(outcome, "scores").items())[:20]}
        idle = time.time() - max(stamp_of(folder / file)[0] / 1e9 for file in (METRICS, RUN_RECORD))
        return {
            "id": name,
            "name": short_text(folder.name, 120),
            "models": [model for model, path in self._models.items() if path.is_relative_to(folder.resolve())],
            "label_smoothing": smoothing if isinstance(smoothing, int | float) and 0 < smoothing < 1 else 0,
            "task": short_text(resolved.get("task")),
            "generates": task is not None and task.generates,
            "example": find_example(task, languages),
            "languages": languages,
            "began": short_text(began[-1]) if isinstance(began, list) and began else "",
            "ended": short_text(outcome.get("ended")),
            "stop_reason": short_text(outcome.get("stop_reason")),
            "state": "ended" if outcome else "training" if idle < STALLED_SECONDS else "stalled",
            "scores": {key: value for key, value in scores.items() if isinstance(value, int | float)},
            "snapshots": self.steps(folder),
            "has_best_model": self.has_model(folder),
            "best_metric": short_text(get_object(resolved, "training").get("best_metric")) or "score",
            "best_step": best if type(best := get_object(outcome, "progress").get("best_step")) is int else None,
        }


@dataclass(frozen=True)
class UnloadedPipeline:
    """What the settings of a run tell of its pipeline."""

    languages: tuple[str, ...]


def find_example(task: Task | None, languages: list[str]) -> dict[str, Any]:
    """Return an example input for the model of a run, without loading it."""
    unloaded = UnloadedPipeline(tuple(languages))
    try:
        return (task or Task()).example(unloaded)
    except (AttributeError, LookupError):  # a task from outside may ask more of a pipeline
        return Task().example(unloaded)


def read_languages(resolved: Mapping[str, Any]) -> list[str]:
    """Return the target languages that the settings of a run name."""
    languages = get_object(resolved, "data").get("languages")
    return [short_text(code, 20) for code in languages[:100]] if isinstance(languages, list) else []


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


def get_object(entries: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry that should be an object, or an empty one."""
    found = entries.get(name)
    return found if isinstance(found, dict) else {}


def short_text(value: object, max_length: int = 60) -> str:
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


MAX_TEXT = 2_000
MAX_SAFE_INTEGER = 1 << 53


def json_value(value: object) -> Metric:
    """Return a value that JSON and JavaScript can represent; None for any other."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= MAX_SAFE_INTEGER else None
    return value if isinstance(value, float) and math.isfinite(value) else None


MAX_RESPONSE_BYTES = 2 << 20
"""Of metrics; `more` says that there is more to fetch."""
MAX_FILE_BYTES = 32 << 20
"""Of a larger file, only the end is sent."""
TAG_BYTES = 256
"""Bytes of which a tag is the checksum."""
MAX_ENTRIES = 60
"""Entries of a record."""


def read_since(path: Path, since: int, tag: str) -> dict[str, object]:
    """Return the records after an offset; `reset` says that earlier ones are no longer valid.

    A response has the offset after its last complete line and a checksum (`tag`) of the bytes before it. A run that
    resumes from a checkpoint truncates its file: then the tag no longer matches, and the file is sent from the
    beginning.
    """
    try:
        file = open_regular(path)
    except ModelFileError:  # a link or a pipe
        file = None
    if file is None:
        return {"records": [], "next": 0, "tag": "", "reset": since > 0, "more": False}
    with file:
        size = file.seek(0, 2)
        matches = 0 < since <= size and tag_at(file, since) == tag
        start = since if matches else max(0, size - MAX_FILE_BYTES)
        data = read_bytes(file, start, MAX_RESPONSE_BYTES)
        complete = data.rfind(b"\n") + 1
        if not complete and len(data) == MAX_RESPONSE_BYTES:
            complete = len(data)  # no valid line is that long: skip it
        end = start + complete
        records = [record for line in data[:complete].splitlines() if (record := parse_record(line)) is not None]
        more = len(data) == MAX_RESPONSE_BYTES
        return {
            "records": records,
            "next": end,
            "tag": tag_at(file, end),
            "reset": since > 0 and not matches,
            "more": more,
        }


def tag_at(file: FileIO, offset: int) -> str:
    """Return a checksum of the bytes before an offset."""
    start = max(0, offset - TAG_BYTES)
    return f"{zlib.crc32(read_bytes(file, start, offset - start)):08x}"


def read_bytes(file: FileIO, start: int, length: int) -> bytes:
    """Return a slice of a file."""
    file.seek(start)
    return file.read(length) or b""


def parse_record(line: bytes) -> dict[str, Metric] | None:
    """Parse a line; numbers that are not finite become null. Return None if it is no record."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # an incomplete line, or not UTF-8
        return None
    if not isinstance(value, dict) or type(value.get("step")) is not int or not 0 <= value["step"] < MAX_SAFE_INTEGER:
        return None
    entries = islice(value.items(), MAX_ENTRIES)
    return {key[:60]: json_value(entry) for key, entry in entries if entry is None or type(entry) in (int, float, str)}
