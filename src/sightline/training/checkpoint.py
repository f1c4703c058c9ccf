"""Checkpoints of a run: complete, atomic, verified. A kill at any time leaves the newest one or the one before it.

Each is a folder:

    RUN/checkpoints/step-00000120/
        state.json              progress, state of the loop, metrics, versions; sums and random generators of every rank
        model.safetensors       the weights; beside it the other kinds of `TrainingState.tensors`
        SHA256SUMS              digests of all files, as `sha256sum --check` reads them
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from sightline import __version__, bundle
from sightline.bundle.manifest import read_entries, shorten, to_json
from sightline.bundle.migration import TENSOR_FILES, migrate_state
from sightline.bundle.tensor_header import read_header
from sightline.bundle.weights import DTYPES, TensorFile, has_non_finite, open_required, write_tensors
from sightline.config import from_mapping, to_mapping
from sightline.errors import InputError, ModelFileError, RefusedError, SettingsError, SightlineError
from sightline.model.interfaces import Model
from sightline.storage import fsync, read_limited, remove_folder, replace_folder
from sightline.training.distributed import SINGLE_RANK, Rank
from sightline.training.state import (
    OPTIMIZER_STATE,
    LoopState,
    Metric,
    Progress,
    RandomStates,
    RunningSums,
    TrainingState,
)

STATE, SUMS = "state.json", "SHA256SUMS"

STATE_FORMAT = 3
"""Format version of state.json; version 2 had the state of the loop among the metrics, and only the main rank's."""

MAX_STATE_BYTES = 4 << 20
"""Enough for 200 ranks: the random generators of one are 20 KB."""


def save_checkpoint(state: TrainingState, folder: Path, *, keep_checkpoints: int, rank: Rank = SINGLE_RANK) -> Path:
    """Save the state as the newest checkpoint of the folder, then remove all but the latest few and the best.

    All ranks call this together: each hands in its own sums and random generators, and the main one writes.
    """
    path = checkpoint_path(folder.resolve(), state.progress.step)
    ranks = [json.loads(entries) for entries in rank.gather(to_json(build_rank_entries(state)).encode())]
    if not rank.is_main:
        return path
    tensors = state.tensors()
    check_savable(tensors)
    text = to_json(build_state_entries(state, ranks))
    if len(text.encode()) > MAX_STATE_BYTES:
        raise SightlineError(
            f"the checkpoint was not saved: its {STATE} would have more than {MAX_STATE_BYTES:,} bytes, with "
            f"{len(state.metrics):,} metrics (their history belongs in metrics.jsonl) and {rank.world_size:,} ranks"
        )
    try:
        with replace_folder(path) as new:
            write_files(new, text, tensors)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SightlineError(
            f"could not save the checkpoint {path}: {reason}; earlier checkpoints are kept: fix this and resume"
        ) from error
    prune_checkpoints(folder, keep_checkpoints=keep_checkpoints, best_step=state.progress.best_step)
    return path


def check_savable(tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Refuse to save a state that could not be loaded or resumed: the last good checkpoint is worth more.

    Accumulated gradients may be non-finite: the optimizer will handle them.
    """
    for kind, named in tensors.items():
        for name, tensor in named.items():
            if tensor.dtype not in DTYPES.values():
                raise SightlineError(
                    f"the checkpoint was not saved: {name} is {tensor.dtype}, not a 32-bit or 16-bit float"
                )
            if kind != "gradients" and has_non_finite(tensor):
                raise SightlineError(
                    f"the checkpoint was not saved: {name} ({kind}) holds NaN or infinity; "
                    "earlier checkpoints are kept: resume with a lower learning rate"
                )


def build_state_entries(state: TrainingState, ranks: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the entries of state.json; a non-finite metric becomes null."""
    infinite = (name for name, value in state.metrics.items() if isinstance(value, float) and not math.isfinite(value))
    return {
        "format": STATE_FORMAT,
        "sightline": __version__,
        "progress": to_mapping(state.progress),
        "loop": to_mapping(state.loop),
        "metrics": {**state.metrics, **dict.fromkeys(infinite)},
        "optimizer": state.optimizer.kinds,
        "environment": collect_environment(state.model),
        "ranks": ranks,
    }


def build_rank_entries(state: TrainingState) -> dict[str, object]:
    """Return what differs between ranks."""
    return {"sums": to_mapping(state.sums), "random": RandomStates.capture().to_entries()}


def write_files(place: Path, text: str, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write every file of a checkpoint, and their digests."""
    (place / STATE).write_text(text, encoding="utf-8", newline="\n")
    for kind, named in tensors.items():
        write_tensors(named, place / f"{kind}.safetensors", like=place / STATE)
    lines = []
    for path in sorted(place.iterdir()):
        with path.open("rb", buffering=0) as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (place / SUMS).write_text("".join(lines), encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint a run was resumed from, and notes for the user."""

    path: Path
    n_ranks: int
    """Ranks whose sums and random generators it has; a rank beyond them starts with new ones."""
    notes: tuple[str, ...]


def resume(state: TrainingState, folder: Path, *, rank: Rank = SINGLE_RANK) -> ResumePoint | None:
    """Load the newest usable checkpoint of the folder; return None if there is none at all.

    This is safe with untrusted files, as loading a model is. If a checkpoint is damaged, it falls back to an older one.
    """
    remove_leftovers(folder)
    problems: list[ModelFileError] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            loaded = load_checkpoint(state, path, rank=rank)
        except ModelFileError as error:
            problems.append(error)
            continue
        skipped = [f"{problem}; falling back to {path.name}" for problem in problems[:1]]
        return replace(loaded, notes=(*skipped, *loaded.notes))
    if problems:
        raise problems[0]
    return None


def load_checkpoint(state: TrainingState, path: Path, *, rank: Rank = SINGLE_RANK) -> ResumePoint:
    """Load one checkpoint, completely or, on any error, not at all.

    Accumulated gradients are those of a single process, as several ranks stop between updates: the main rank has them.
    """
    sums = read_sums(path / SUMS)
    with ExitStack() as stack:
        files = {name: stack.enter_context(open_required(path / name)) for name in sums}
        data = read_limited(files[STATE], path / STATE, max_bytes=MAX_STATE_BYTES)
        check_digest(BytesIO(data), path / STATE, sums[STATE])
        entries = read_entries(data, path / STATE, migrate=migrate_state, newest=STATE_FORMAT)
        try:
            numbers = parse_state(entries)
        except (InputError, SettingsError) as error:
            raise ModelFileError(path / STATE, shorten(str(error))) from None
        check_optimizer(state, entries.get("optimizer"), path / STATE)
        stored = {
            kind_of(name): TensorFile(path / name, file, read_header(file, path / name))
            for name, file in files.items()
            if name != STATE
        }
        state.check(stored)  # from here on the files are known to be no larger than the model needs
        for file in stored.values():
            check_digest(file.file, file.path, sums[file.path.name])
        tensors = {kind: file.read_all(finite=kind != "gradients") for kind, file in stored.items()}
    if not rank.is_main:
        tensors.pop("gradients", None)
    state.restore(tensors)
    state.progress, state.loop, state.metrics = numbers.progress, numbers.loop, numbers.metrics
    n_ranks = len(numbers.ranks)
    if rank.index < n_ranks:
        state.sums = numbers.ranks[rank.index].sums
        numbers.ranks[rank.index].random.restore()
    else:
        state.sums = RunningSums()
    notes = (
        describe_environment_changes(numbers.environment, collect_environment(state.model)),
        describe_ranks(n_ranks, world_size=rank.world_size),
    )
    return ResumePoint(path, n_ranks, tuple(note for note in notes if note))


TENSOR_KINDS = ("model", "optimizer", "ema", "gradients")

FILE_NAMES = (STATE, *(f"{kind}.safetensors" for kind in TENSOR_KINDS))

OLD_FILE_NAMES = {f"{kind}.safetensors" for kind in TENSOR_FILES}

SUM_LINE = re.compile(r"([0-9a-f]{64})  (\S{1,40})")

MAX_SUMS_BYTES = 1000


def read_sums(path: Path) -> dict[str, str]:
    """Read the digests of the files of a checkpoint, by name."""
    with open_required(path) as file:
        lines = read_limited(file, path, max_bytes=MAX_SUMS_BYTES).decode("ascii", errors="replace").splitlines()
    found = {match[2]: match[1] for line in lines if (match := SUM_LINE.fullmatch(line))}
    if len(found) != len(lines) or not {STATE, "model.safetensors"} <= set(found) <= set(FILE_NAMES) | OLD_FILE_NAMES:
        raise ModelFileError(path, "does not list the files of a checkpoint")
    return found


def kind_of(name: str) -> str:
    """Return the kind of tensors in a file of a checkpoint."""
    kind = name.removesuffix(".safetensors")
    return TENSOR_FILES.get(kind, kind)


def check_digest(file: FileIO | BytesIO, path: Path, expected: str) -> None:
    """Reject a file whose content has changed since it was written."""
    try:
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    if found != expected:
        raise ModelFileError(path, f"is damaged: its digest differs from {SUMS}")


@dataclass(frozen=True)
class RankState:
    """What differs between ranks."""

    sums: RunningSums
    random: RandomStates


@dataclass(frozen=True)
class StateNumbers:
    """The contents of state.json: all of a training state that is not a tensor."""

    progress: Progress
    loop: LoopState
    metrics: dict[str, Metric]
    environment: dict[str, object]
    ranks: tuple[RankState, ...]


SECTIONS = ("progress", "metrics", "loop", "environment")


def parse_state(entries: Mapping[str, Any]) -> StateNumbers:
    """Read the sections of state.json."""
    for section in SECTIONS:
        if not isinstance(entries.get(section), dict):
            raise InputError(f'must have an object as "{section}"')
    metrics: dict[str, Metric] = entries["metrics"]
    if not all(value is None or type(value) in (int, float, str) for value in metrics.values()):
        raise InputError("its metrics must be numbers or text")
    return StateNumbers(
        read_fields(Progress, entries["progress"], where="progress"),
        read_fields(LoopState, entries["loop"], where="loop"),
        metrics,
        entries["environment"],
        parse_ranks(entries.get("ranks")),
    )


def parse_ranks(ranks: object) -> tuple[RankState, ...]:
    """Read what differs between ranks."""
    if not isinstance(ranks, list) or not ranks:
        raise InputError('must have a list with the state of every rank as "ranks"')
    found = []
    for index, entries in enumerate(ranks):
        if not isinstance(entries, dict) or not all(isinstance(entries.get(key), dict) for key in ("sums", "random")):
            raise InputError(f'rank {index} must have objects as "sums" and "random"')
        sums = read_fields(RunningSums, entries["sums"], where=f"sums of rank {index}")
        try:
            found.append(RankState(sums, RandomStates.from_entries(entries["random"])))
        except InputError as error:
            raise InputError(f"rank {index}: {error}") from None
    return tuple(found)


Fields = TypeVar("Fields")


def read_fields(kind: type[Fields], entries: Mapping[str, Any], *, where: str) -> Fields:
    """Read a section of state.json; every field must be there, as a default would resume another run."""
    return from_mapping(kind, entries, where=where, what="field", complete=True)


def check_optimizer(state: TrainingState, kinds: object, path: Path) -> None:
    """Refuse to resume with another optimizer, which could not use the saved state."""
    if not isinstance(kinds, list) or not set(map(str, kinds)) <= set(OPTIMIZER_STATE):
        raise ModelFileError(path, f'must have a list of {", ".join(OPTIMIZER_STATE)} as "optimizer"')
    if kinds != state.optimizer.kinds:
        raise RefusedError(
            f"the checkpoint was saved with {' and '.join(kinds)}, but the settings ask for "
            f"{' and '.join(state.optimizer.kinds)}: resume with the run's original optimizer, or start a new run"
        )


def describe_ranks(saved: int, *, world_size: int) -> str | None:
    """Return what becomes of the random generators if they are of more or fewer ranks than there are now, or None."""
    if saved == world_size:
        return None
    rest = f"ranks from {saved} on are seeded anew" if saved < world_size else f"those from {world_size} on are unused"
    return (
        f"the checkpoint has the random generators of {saved} rank{'s' * (saved > 1)}, not of {world_size}: {rest}; "
        "the run continues, but not bit-identical to an uninterrupted one"
    )


def collect_environment(model: nn.Module | Model) -> dict[str, object]:
    """Return versions, threads, device and dtype: only where they are the same is a resumed run bit-identical."""
    weight = next(model.parameters())
    return {
        "sightline": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": weight.device.type,
        "dtype": str(weight.dtype).removeprefix("torch."),
    }


def describe_environment_changes(then: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Return what has changed in a sentence, or None; our own version does not count."""
    changed = [
        f"{name} was {' '.join(str(then.get(name)).split())[:40]} and is {now[name]}"
        for name in now
        if name != "sightline" and then.get(name) != now[name]
    ]
    if not changed:
        return None
    return f"{', '.join(changed)}: the run continues, but not bit-identical to an uninterrupted one"


FOLDER_NAME = re.compile(r"step-(\d{8,18})")


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return folder / f"step-{step:08d}"


def parse_step(path: Path) -> int:
    """Return the step of a checkpoint from its name."""
    return int(path.name.removeprefix("step-"))


def list_checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints of a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if FOLDER_NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=parse_step)


def prune_checkpoints(folder: Path, *, keep_checkpoints: int, best_step: int | None) -> None:
    """Remove all checkpoints but the latest few and the best one; a failed removal is tried again later."""
    for path in list_checkpoints(folder)[:-keep_checkpoints]:
        if parse_step(path) != best_step:
            removed = path.with_name(f"{path.name}.tmp-gone")  # half removed, it must not look like a checkpoint
            with suppress(OSError):
                path.rename(removed)
                remove_folder(removed)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed save left behind; a checkpoint that it had moved aside is put back."""
    for old in folder.glob("step-*.tmp-old"):
        place = old.with_name(old.name.removesuffix(".tmp-old"))
        if not os.path.lexists(place):
            try:
                old.rename(place)
                fsync(folder)
            except OSError as error:
                raise SightlineError(f"could not rename {old} back to {place.name}: {error.strerror}") from error
    for leftover in folder.glob("step-*.tmp-*"):
        remove_folder(leftover)


def snapshot_due(step: int) -> bool:
    """Tell whether a snapshot is due: at steps 1, 2, 4, 8, …, as much happens early, little late."""
    return step > 0 and step & (step - 1) == 0


def save_snapshot(model: Model, folder: Path, *, step: int) -> Path:
    """Save the model of this step, to show later how attention formed.

    A run cannot be resumed from a snapshot; it is a model folder like any other.
    """
    path = checkpoint_path(folder, step)
    bundle.save(bundle.Bundle(model), path)
    return path
