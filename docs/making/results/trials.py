"""Train and score one trial with the commands a user would type; skip what is already done."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from making.results.row import DATA, RUNS, Row, Training, Trial
from sightline.runs.recipe import apply_overrides, read_recipe
from sightline.runs.run_record import read_run_record

PROGRAM = (sys.executable, "-m", "sightline")
PROJECT = Path(__file__).parents[3]
RELEVANT_PATHS = ("src", "docs/making", "pyproject.toml", "constraints.txt")
"""Parts of the project that a result depends on; the tables are not among them."""


@dataclass(frozen=True)
class Folders:
    """The folders of the corpora and of the runs."""

    data: Path
    runs: Path
    """Outside the work tree: a checkout can be replaced, hours of training cannot."""

    def resolve(self, command: Sequence[str]) -> list[str]:
        """Replace the placeholders in a command by the folders."""
        return [part.replace(DATA, str(self.data)).replace(RUNS, str(self.runs)) for part in command]

    def unresolve(self, text: str) -> str:
        """Replace the folders in a text by the placeholders."""
        return text.replace(str(self.data), DATA).replace(str(self.runs), RUNS)


@dataclass(frozen=True)
class Record:
    """The result of a trial."""

    row: str
    trial: str
    commands: tuple[str, ...]
    settings: str
    """A digest of all settings: when a recipe changes, its trials must run again."""
    commit: str
    date: str
    minutes: float
    """Training time, including that before a resume."""
    memory_mb: int
    """Peak memory of any of the commands."""
    scores: dict[str, object]

    def to_mapping(self) -> dict[str, object]:
        """Return the record as a dictionary for JSON."""
        return asdict(self)


def list_commands(row: Row, trial: Trial) -> Iterator[tuple[str, ...]]:
    """Yield the commands of a trial."""
    for training in (*trial.prerequisites, *trial.trainings):
        yield ("sightline", "train", training.recipe, *training.settings, "--out", run_folder(row, training))
    yield ("sightline", "evaluate", run_folder(row, trial.trainings[-1]), *trial.test)


def run_folder(row: Row, training: Training) -> str:
    """Return the folder of a training run."""
    return f"{RUNS}/{row.name}/{training.folder}"


def run_trial(row: Row, trial: Trial, folders: Folders) -> Record:
    """Run or resume the training runs that are not finished, and score the model."""
    version = current_commit()
    for training in trial.prerequisites:
        train(row, training, folders)
    trainings = [train(row, training, folders) for training in trial.trainings]
    *_, scoring = list_commands(row, trial)
    scores, memory = evaluate(folders.resolve([*scoring[1:], "--json"]))
    scores.pop("model", None)
    return Record(
        row.name,
        trial.name,
        format_commands(row, trial),
        digest(trial),
        version,
        datetime.now(UTC).date().isoformat(),
        round(sum(minutes for minutes, _ in trainings), 1),
        max(memory, *(most for _, most in trainings)),
        scores,
    )


def train(row: Row, training: Training, folders: Folders) -> tuple[float, int]:
    """Train, unless it is done; return the minutes it took and the peak memory in MB."""
    folder = Path(folders.resolve([run_folder(row, training)])[0])
    noted = folder.with_name(f"{folder.name}.memory")  # beside the folder of the run, which belongs to the run
    if is_finished(folder):
        check_same(training, folder, folders)
    else:
        started = (folder / "run.json").exists()
        command = [
            "train",
            training.recipe,
            *training.settings,
            "--out",
            str(folder),
            *(["--resume"] if started else []),
        ]
        code, memory, _ = run_command(folders.resolve(command))
        before = int(noted.read_text(encoding="ascii")) if noted.exists() else 0
        noted.write_text(str(max(before, memory)), encoding="ascii")
        if code:
            raise SystemExit(code)
    # A run that was trained by hand, with the same command, has no such file.
    return training_seconds(folder) / 60, int(noted.read_text(encoding="ascii")) if noted.exists() else 0


def is_finished(folder: Path) -> bool:
    """Tell whether a run is finished; an interrupted one is not."""
    outcome = (read_run_record(folder) or {}).get("outcome") or {}
    return outcome.get("stop_reason") not in (None, "signal")


def check_same(training: Training, folder: Path, folders: Folders) -> None:
    """Refuse a folder that holds a run with other settings: its score would stand beside the wrong command."""
    theirs = (read_run_record(folder) or {}).get("recipe") or {}
    if folders.unresolve(canonical_json(theirs)) != canonical_json(resolve_recipe(training)):
        raise SystemExit(f"results: {folder} was trained with other settings: move it away to train again")


def digest(trial: Trial) -> str:
    """Return a digest of the settings of all training runs of a trial."""
    text = "\n".join(canonical_json(resolve_recipe(training)) for training in (*trial.prerequisites, *trial.trainings))
    return blake2b(text.encode("utf-8"), digest_size=8).hexdigest()


def resolve_recipe(training: Training) -> dict[str, object]:
    """Return the settings of a training run: its recipe with the overrides of its command."""
    return apply_overrides(read_recipe(training.recipe), training.settings).to_mapping()


def canonical_json(recipe: dict[str, object]) -> str:
    """Return the settings of a recipe in a canonical form."""
    return json.dumps({**recipe, "description": ""}, sort_keys=True)


def training_seconds(folder: Path) -> float:
    """Return how long a run has trained, from its record."""
    record = read_run_record(folder) or {}
    return float(record["outcome"]["progress"]["seconds"])


def run_command(arguments: Sequence[str], *, output: int | None = None) -> tuple[int, int, str]:
    """Run a command of Sightline; return its exit code, peak memory in MB, and output."""
    with subprocess.Popen([*PROGRAM, *arguments], stdout=output, text=True) as process:  # noqa: S603
        printed = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss // 1024, printed


def evaluate(arguments: Sequence[str]) -> tuple[dict[str, object], int]:
    """Run `sightline evaluate … --json`."""
    code, memory, printed = run_command(arguments, output=subprocess.PIPE)
    if code:
        raise SystemExit(code)
    return json.loads(printed), memory


def current_commit() -> str:
    """Return the current commit, with "-dirty" if files that a result depends on have changed."""
    version = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{version}-dirty" if git("status", "--porcelain", "--", *RELEVANT_PATHS) else version


def git(*arguments: str) -> str:
    """Return the output of a git command; empty if it fails."""
    found = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)  # noqa: S603, S607
    return found.stdout.strip()


def format_commands(row: Row, trial: Trial) -> tuple[str, ...]:
    """Return the commands of a trial as typed in a shell."""
    return tuple(" ".join(quote(part) for part in command) for command in list_commands(row, trial))


def quote(part: str) -> str:
    """Quote an argument for a shell, if needed."""
    return f"'{part}'" if " " in part or "#" in part else part
