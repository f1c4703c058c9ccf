"""Train and score one trial, by the commands a person would type; whatever is done already is not done again."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from making.results.row import DATA, RUNS, Row, Training, Trial

PROGRAM = (sys.executable, "-m", "sightline")


@dataclass(frozen=True)
class Places:
    """Where things are."""

    data: Path
    runs: Path
    """Outside the work tree: it may be laid anew, hours of training may not."""

    def named(self, command: Sequence[str]) -> list[str]:
        """Return a command with the folders it is about."""
        return [part.replace(DATA, str(self.data)).replace(RUNS, str(self.runs)) for part in command]


@dataclass(frozen=True)
class Record:
    """What became of a trial."""

    row: str
    trial: str
    commands: tuple[str, ...]
    commit: str
    date: str
    minutes: float
    """Of training, those before a resume counted."""
    memory_mb: int
    """The most that any of the commands had at once."""
    scores: dict[str, object]

    def to_mapping(self) -> dict[str, object]:
        """Return the record as it is kept."""
        return asdict(self)


def commands_of(row: Row, trial: Trial) -> Iterator[tuple[str, ...]]:
    """Yield what a person would type."""
    for training in trial.trainings:
        yield ("sightline", "train", training.recipe, *training.settings, "--out", folder_of(row, training))
    yield ("sightline", "evaluate", folder_of(row, trial.trainings[-1]), *trial.test)


def folder_of(row: Row, training: Training) -> str:
    """Return the folder of a run."""
    return f"{RUNS}/{row.name}/{training.folder}"


def carried_out(row: Row, trial: Trial, places: Places) -> Record:
    """Train what is not trained yet, go on where a training was stopped, and score the model."""
    trainings = [train(row, training, places) for training in trial.trainings]
    *_, scoring = commands_of(row, trial)
    scores, memory = evaluated(places.named([*scoring[1:], "--json"]))
    scores.pop("model", None)
    return Record(
        row.name,
        trial.name,
        tuple(" ".join(quoted(part) for part in command) for command in commands_of(row, trial)),
        commit(),
        datetime.now(UTC).date().isoformat(),
        round(sum(minutes for minutes, _ in trainings), 1),
        max(memory, *(most for _, most in trainings)),
        scores,
    )


def train(row: Row, training: Training, places: Places) -> tuple[float, int]:
    """Train, unless it is done; return the minutes it took and the memory it had at most."""
    folder = Path(places.named([folder_of(row, training)])[0])
    noted = folder.with_name(f"{folder.name}.memory")  # beside the run, whose folder is the run's own
    if not ended(folder):
        begun = (folder / "run.json").exists()
        command = ["train", training.recipe, *training.settings, "--out", str(folder), *(["--resume"] if begun else [])]
        code, memory, _ = ran(places.named(command))
        before = int(noted.read_text(encoding="ascii")) if noted.exists() else 0
        noted.write_text(str(max(before, memory)), encoding="ascii")
        if code:
            raise SystemExit(code)
    # A run that was trained by hand, by the same command, has left no note.
    return seconds_of(folder) / 60, int(noted.read_text(encoding="ascii")) if noted.exists() else 0


def ended(folder: Path) -> bool:
    """Tell whether a run has come to its end; one that was stopped has not."""
    try:
        outcome = json.loads((folder / "run.json").read_text(encoding="utf-8")).get("outcome") or {}
    except FileNotFoundError:
        return False
    return outcome.get("ending") not in (None, "signal")


def seconds_of(folder: Path) -> float:
    """Return how long a run trained, by its own clock."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return max(float(json.loads(line).get("seconds", 0.0)) for line in lines)


def ran(arguments: Sequence[str], *, output: int | None = None) -> tuple[int, int, str]:
    """Run a command of Sightline; return its exit code, the memory it had at most in MB, and what it printed."""
    with subprocess.Popen([*PROGRAM, *arguments], stdout=output, text=True) as process:  # noqa: S603
        printed = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss // 1024, printed


def evaluated(arguments: Sequence[str]) -> tuple[dict[str, object], int]:
    """Run `sightline evaluate … --json`."""
    code, memory, printed = ran(arguments, output=subprocess.PIPE)
    if code:
        raise SystemExit(code)
    return json.loads(printed), memory


@cache
def commit() -> str:
    """Return which version of the project this was before any table was written."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)  # noqa: S607
    return found.stdout.strip() or "unknown"


def quoted(part: str) -> str:
    """Return a part of a command as a shell takes it."""
    return f"'{part}'" if " " in part or "#" in part else part
