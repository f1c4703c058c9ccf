"""Checkpoints of a run: complete, atomic, checked. A kill at any instant leaves the newest one or the one before it.

    RUN/checkpoints/step-00000120/
        state.json              progress, scores, random generators, versions
        model.safetensors       the weights; the other kinds of tensors of `state.py` beside it
        SHA256SUMS              what every file must be, as `sha256sum --check` reads it

`resume` is safe with files of any origin, as loading a model is. From a damaged checkpoint it goes back to an older.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from sightline import __version__
from sightline.bundle.atomic import replace_folder
from sightline.bundle.header import read_header
from sightline.bundle.manifest import FORMAT, LARGEST, as_json, read_entries, shortened
from sightline.bundle.source import read_all
from sightline.bundle.weights import DTYPES, not_finite, write_tensors
from sightline.errors import InputError, ModelFileError, RefusedError, SettingsError, SightlineError
from sightline.settings import from_mapping, to_mapping
from sightline.training.environment import differences, environment
from sightline.training.randomness import RandomStates
from sightline.training.rotation import checkpoints, clean, place_for, rotate
from sightline.training.state import REMEMBERED, Metric, Progress, TrainingState
from sightline.training.tensor_file import TensorFile, opened

STATE, SUMS = "state.json", "SHA256SUMS"
KINDS = ("model", "optimizer", "average", "gradients")
FILE_NAMES = (STATE, *(f"{kind}.safetensors" for kind in KINDS))
SUM = re.compile(r"([0-9a-f]{64})  (\S{1,40})")
LARGEST_SUMS = 1000
SECTIONS = ("progress", "metrics", "environment", "random")


@dataclass(frozen=True)
class Resumed:
    """From where a run goes on, and what a person should know about it."""

    path: Path
    notes: tuple[str, ...]


def save(state: TrainingState, folder: Path, *, keep_last: int) -> Path:
    """Save the state as the newest checkpoint of the folder, then remove all but the last few and the best."""
    path = place_for(folder.resolve(), state.progress.step)
    tensors = state.tensors()
    check_savable(tensors)
    text = as_json(entries_of(state))
    if len(text.encode()) > LARGEST:
        raise SightlineError("the checkpoint is not saved: its metrics are too many; their history belongs in the log")
    try:
        replace_folder(path, lambda place: write_files(place, text, tensors))
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SightlineError(
            f"could not save the checkpoint {path}: {reason}; earlier ones are kept: put this right and resume"
        ) from error
    rotate(folder, keep_last=keep_last, best_step=state.progress.best_step)
    return path


def resume(state: TrainingState, folder: Path) -> Resumed | None:
    """Take on the newest checkpoint of the folder that can be used; None where there is none at all."""
    clean(folder)
    problems: list[ModelFileError] = []
    for path in reversed(checkpoints(folder)):
        try:
            notes = load(state, path)
        except ModelFileError as error:
            problems.append(error)
            continue
        skipped = [f"{problem}; going back to {path.name}" for problem in problems[:1]]
        return Resumed(path, (*skipped, *notes))
    if problems:
        raise problems[0]
    return None


def check_savable(tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Refuse to write what could not be read back as it is, or go on: the last good checkpoint is worth more.

    Gradients that wait for their update may be anything: the update will judge them.
    """
    for kind, named in tensors.items():
        for name, tensor in named.items():
            if tensor.dtype not in DTYPES.values():
                raise SightlineError(
                    f"the checkpoint is not saved: {name} is {tensor.dtype}, not a float of 32 or 16 bits"
                )
            if kind != "gradients" and not_finite(tensor):
                raise SightlineError(
                    f"the checkpoint is not saved: {name} ({kind}) holds NaN or infinity; "
                    "earlier ones are kept: resume with a lower learning rate"
                )


def entries_of(state: TrainingState) -> dict[str, object]:
    """Return state.json; a score that is not a finite number becomes null, as JSON has no other word for it."""
    infinite = (name for name, value in state.metrics.items() if isinstance(value, float) and not math.isfinite(value))
    return {
        "format": FORMAT,
        "sightline": __version__,
        "progress": to_mapping(state.progress),
        "metrics": {**state.metrics, **dict.fromkeys(infinite)},
        "optimizer": state.optimizer.kinds,
        "environment": environment(state.model),
        "random": RandomStates.now().to_entries(),
    }


def write_files(place: Path, text: str, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write every file of a checkpoint, and what each must be."""
    (place / STATE).write_text(text, encoding="utf-8", newline="\n")
    for kind, named in tensors.items():
        write_tensors(named, place / f"{kind}.safetensors", like=place / STATE)
    lines = []
    for path in sorted(place.iterdir()):
        with path.open("rb", buffering=0) as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (place / SUMS).write_text("".join(lines), encoding="utf-8", newline="\n")


def load(state: TrainingState, path: Path) -> list[str]:
    """Take on one checkpoint, all of it or, where something is wrong, nothing; return what a person should know."""
    sums = read_sums(path / SUMS)
    with ExitStack() as stack:
        files = {name: stack.enter_context(opened(path / name)) for name in sums}
        data = read_all(files[STATE], path / STATE, most=LARGEST)
        check_digest(BytesIO(data), path / STATE, sums[STATE])
        entries = read_entries(data, path / STATE)
        try:
            progress, metrics, random_states, then = parse(entries)
        except (InputError, SettingsError) as error:
            raise ModelFileError(path / STATE, shortened(str(error))) from None
        check_optimizer(state, entries.get("optimizer"), path / STATE)
        stored = {
            name.removesuffix(".safetensors"): TensorFile(path / name, file, read_header(file, path / name))
            for name, file in files.items()
            if name != STATE
        }
        state.check(stored)  # from here on the files are known to be no larger than the model asks for
        for file in stored.values():
            check_digest(file.file, file.path, sums[file.path.name])
        tensors = {kind: file.read_all(finite=kind != "gradients") for kind, file in stored.items()}
    state.restore(tensors)
    state.progress, state.metrics = progress, metrics
    random_states.apply()
    changed = differences(then, environment(state.model))
    return [changed] if changed else []


def read_sums(path: Path) -> dict[str, str]:
    """Read which files a checkpoint has, and their digests."""
    with opened(path) as file:
        lines = read_all(file, path, most=LARGEST_SUMS).decode("ascii", errors="replace").splitlines()
    found = {match[2]: match[1] for line in lines if (match := SUM.fullmatch(line))}
    if len(found) != len(lines) or not {STATE, "model.safetensors"} <= set(found) <= set(FILE_NAMES):
        raise ModelFileError(path, "does not list the files of a checkpoint")
    return found


def check_digest(file: FileIO | BytesIO, path: Path, expected: str) -> None:
    """Refuse a file that is not, to the last bit, what was written."""
    try:
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    if found != expected:
        raise ModelFileError(path, f"is damaged: it is not what was written, says {SUMS}")


def parse(entries: Mapping[str, Any]) -> tuple[Progress, dict[str, Metric], RandomStates, dict[str, object]]:
    """Read the sections of state.json."""
    for section in SECTIONS:
        if not isinstance(entries.get(section), dict):
            raise InputError(f'must have an object as "{section}"')
    metrics: dict[str, Metric] = entries["metrics"]
    if not all(value is None or type(value) in (int, float, str) for value in metrics.values()):
        raise InputError("its metrics must be numbers or text")
    progress = from_mapping(Progress, entries["progress"], where="progress")
    return progress, metrics, RandomStates.from_entries(entries["random"]), entries["environment"]


def check_optimizer(state: TrainingState, kinds: object, path: Path) -> None:
    """Refuse to go on with another optimiser: what this one remembers would mean nothing to it."""
    if not isinstance(kinds, list) or not set(map(str, kinds)) <= set(REMEMBERED):
        raise ModelFileError(path, f'must have a list of {", ".join(REMEMBERED)} as "optimizer"')
    if kinds != state.optimizer.kinds:
        raise RefusedError(
            f"the checkpoint was made with {' and '.join(kinds)}, but the settings ask for "
            f"{' and '.join(state.optimizer.kinds)}: resume with the optimizer the run began with, or start a new run"
        )
