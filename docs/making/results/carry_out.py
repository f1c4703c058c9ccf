"""Train and score one trial, by the commands a person would type; whatever is done already is not done again."""

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
from sightline.run.overrides import changed
from sightline.run.recipe import read_recipe

PROGRAM = (sys.executable, "-m", "sightline")
PROJECT = Path(__file__).parents[3]
WHAT_DECIDES = ("src", "docs/making", "pyproject.toml", "constraints.txt")
"""Parts of the project that a result depends on; the tables, which follow each of them, are none."""


@dataclass(frozen=True)
class Places:
    """Where things are."""

    data: Path
    runs: Path
    """Outside the work tree: it may be laid anew, hours of training may not."""

    def named(self, command: Sequence[str]) -> list[str]:
        """Return a command with the folders it is about."""
        return [part.replace(DATA, str(self.data)).replace(RUNS, str(self.runs)) for part in command]

    def unnamed(self, text: str) -> str:
        """Return a text with the words that stand for the folders in their places."""
        return text.replace(str(self.data), DATA).replace(str(self.runs), RUNS)


@dataclass(frozen=True)
class Record:
    """What became of a trial."""

    row: str
    trial: str
    commands: tuple[str, ...]
    settings: str
    """A digest of all that the recipes and commands set: when a recipe changes, its result is to be had anew."""
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
    for training in (*trial.beforehand, *trial.trainings):
        yield ("sightline", "train", training.recipe, *training.settings, "--out", folder_of(row, training))
    yield ("sightline", "evaluate", folder_of(row, trial.trainings[-1]), *trial.test)


def folder_of(row: Row, training: Training) -> str:
    """Return the folder of a run."""
    return f"{RUNS}/{row.name}/{training.folder}"


def carried_out(row: Row, trial: Trial, places: Places) -> Record:
    """Train what is not trained yet, go on where a training was stopped, and score the model."""
    version = commit()
    for training in trial.beforehand:
        train(row, training, places)
    trainings = [train(row, training, places) for training in trial.trainings]
    *_, scoring = commands_of(row, trial)
    scores, memory = evaluated(places.named([*scoring[1:], "--json"]))
    scores.pop("model", None)
    return Record(
        row.name,
        trial.name,
        written(row, trial),
        digest(trial),
        version,
        datetime.now(UTC).date().isoformat(),
        round(sum(minutes for minutes, _ in trainings), 1),
        max(memory, *(most for _, most in trainings)),
        scores,
    )


def train(row: Row, training: Training, places: Places) -> tuple[float, int]:
    """Train, unless it is done; return the minutes it took and the memory it had at most."""
    folder = Path(places.named([folder_of(row, training)])[0])
    noted = folder.with_name(f"{folder.name}.memory")  # beside the run, whose folder is the run's own
    if ended(folder):
        check_same(training, folder, places)
    else:
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


def check_same(training: Training, folder: Path, places: Places) -> None:
    """Refuse a run that another training has left in this folder: its score would stand beside the wrong command."""
    theirs = json.loads((folder / "run.json").read_text(encoding="utf-8"))["recipe"]
    if places.unnamed(spelled(theirs)) != spelled(asked(training)):
        raise SystemExit(f"results: {folder} was trained with other settings: move it away, and it is trained anew")


def digest(trial: Trial) -> str:
    """Return a few letters that only the same settings have."""
    text = "\n".join(spelled(asked(training)) for training in (*trial.beforehand, *trial.trainings))
    return blake2b(text.encode("utf-8"), digest_size=8).hexdigest()


def asked(training: Training) -> dict[str, object]:
    """Return what a training is asked to do, by its recipe and by its command."""
    return changed(read_recipe(training.recipe), training.settings).to_mapping()


def spelled(recipe: dict[str, object]) -> str:
    """Return what a recipe sets, always spelled alike."""
    return json.dumps({**recipe, "description": ""}, sort_keys=True)


def seconds_of(folder: Path) -> float:
    """Return how long a run trained, by its own clock."""
    journal = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return float(journal["outcome"]["progress"]["seconds"])


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


def commit() -> str:
    """Return which version of the project this is, "-dirty" if it differs from it in what a result depends on."""
    version = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{version}-dirty" if git("status", "--porcelain", "--", *WHAT_DECIDES) else version


def git(*arguments: str) -> str:
    """Return what git says of the project; nothing where there is no git."""
    found = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)  # noqa: S603, S607
    return found.stdout.strip()


def written(row: Row, trial: Trial) -> tuple[str, ...]:
    """Return the commands of a trial as one would type them."""
    return tuple(" ".join(quoted(part) for part in command) for command in commands_of(row, trial))


def quoted(part: str) -> str:
    """Return a part of a command as a shell takes it."""
    return f"'{part}'" if " " in part or "#" in part else part
