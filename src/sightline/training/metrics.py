"""Metrics of a run: the result of a validation, metrics.jsonl, and TensorBoard. They know no model and no terminal."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from sightline.data.corpora.files import Location
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.runtime import import_optional
from sightline.storage import SAFE_FLAGS, fsync, open_regular, parse_object
from sightline.training.report import VALIDATION_PREFIX, Sample
from sightline.training.settings import BestMetric
from sightline.training.state import Metric

METRICS = "metrics.jsonl"

VALIDATION_LOSS = "validation_loss"
"""Only validation records have this key."""


@dataclass(frozen=True)
class ValidationResult:
    """Loss, scores and sample outputs of a model on the validation set."""

    loss: float
    """Cross-entropy per token (or label), without label smoothing."""
    score: tuple[str, float]
    """Name and value of the task's main metric."""
    higher_is_better: bool
    other_scores: dict[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()

    def to_record(self) -> dict[str, float]:
        """Return all values by name."""
        name, value = self.score
        return {VALIDATION_LOSS: self.loss, name: value, **self.other_scores}

    def selection_key(self, best_metric: BestMetric, *, step: int) -> tuple[float, float]:
        """Return a key that is higher for a better model: the score, then the loss to break ties.

        Ties are common: BLEU is 0 for every model as long as all sentences are short.
        """
        if best_metric == "last":
            return float(step), 0.0
        loss, score = float(self.loss), float(self.score[1])  # not NumPy's
        return (-loss, 0.0) if best_metric == "loss" else (score if self.higher_is_better else -score, -loss)


class MetricsFile:
    """metrics.jsonl, one JSON object per line, each with its "step"; the file need not exist yet.

    Each line is written in one piece, so that another program can follow the run. A kill leaves at most an incomplete
    last line. A resumed run first truncates the file to its checkpoint, so that no step occurs twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Metric]) -> None:
        """Append one record; a non-finite number becomes null.

        If the disk is full, the file is unchanged.
        """
        finite = {name: finite_or_none(value) for name, value in record.items()}
        check_record(finite)
        # A lone surrogate, which UTF-8 cannot hold, is escaped; backslashreplace does it as JSON does.
        text = json.dumps(finite, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            append_bytes(self.path, text.encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            raise SightlineError(f"could not write to {self.path}: {error.strerror or error}") from error

    def truncate(self, step: int, *, validated: int | None = None) -> int:
        """Drop the records after a step and an incomplete last line; return how many records were dropped.

        Validation records are kept up to the step `validated`: the last validation of a run may come after the
        checkpoint of its step, so a kill may leave a record of it that will be written again.
        The file is replaced atomically: a kill leaves the old one or the new one.
        """
        last_validated = step if validated is None else min(step, validated)
        if not os.path.lexists(self.path):
            return 0
        new = self.path.with_name(f"{self.path.name}.tmp-new")
        dropped = 0
        try:
            with new.open("wb") as file:
                for line, record in complete_lines(self.path):
                    if record_step(record) <= (last_validated if VALIDATION_LOSS in record else step):
                        file.write(line)
                    else:
                        dropped += 1
            fsync(new)
            new.replace(self.path)
            fsync(self.path.parent)
        except OSError as error:
            raise SightlineError(f"could not truncate {self.path}: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)
        return dropped


def read_metrics(path: Path) -> list[dict[str, Metric]]:
    """Return all records of a file; the last line may be incomplete, as a run may be writing it."""
    return [record for _, record in complete_lines(path)]


APPEND_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | SAFE_FLAGS


def append_bytes(path: Path, data: bytes) -> None:
    """Append bytes to a file, all of them or none."""
    descriptor = os.open(path, APPEND_FLAGS, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def complete_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Metric]]]:
    """Yield each line with its record; an incomplete last line is left out, a missing last newline is added.

    Anything else that is not a record is an error, reported with its file and line.
    """
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "there is no such file")
    with file:
        for number, line in enumerate(split_lines(file, path), start=1):
            try:
                record = parse_record(line)
            except InputError as error:
                if line.endswith(b"\n"):
                    raise InputError(f"{Location(path, number)}: {error}") from None
                return
            yield (line if line.endswith(b"\n") else line + b"\n"), record


MAX_LINE_BYTES = 1 << 20


def split_lines(file: FileIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their newlines; refuse a line that is too long."""
    rest = b""
    number = 1
    while block := file.read(MAX_LINE_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
        number += len(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(f"{Location(path, number)}: this line has more than {MAX_LINE_BYTES:,} bytes")
    if rest:
        yield rest


def parse_record(line: bytes) -> dict[str, Metric]:
    """Return the record of a line, or raise InputError."""
    record: dict[str, Metric] = parse_object(line)  # type: ignore[assignment]  # checked on the next line
    check_record(record)
    return record


def check_record(record: Mapping[str, Metric]) -> None:
    """Reject anything that is not the record of a step."""
    if type(record.get("step")) is not int or not 0 <= record_step(record) < 1 << 63:
        raise InputError('this record must have a "step", an integer of at least 0')
    for name, value in record.items():
        if value is not None and type(value) not in (int, float, str):
            raise InputError(f"{name[:60]!r} must be a number or text")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{name[:60]!r} is not a finite number")


def record_step(record: Mapping[str, Metric]) -> int:
    """Return the step of a valid record."""
    return int(record["step"] or 0)


def finite_or_none(value: Metric) -> Metric:
    """Return a value that JSON can hold; NumPy floats become Python floats."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


class TensorBoardWriter:
    """Writes metrics (train/…, validation/…) and samples as events, flushing each, so that curves grow during the run.

    They are written in addition to metrics.jsonl; nothing is read back from here. The package is an extra.
    A resumed run gives its first step as `purge_step`: events of that step and later ones are then hidden.
    """

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        import_optional("tensorboard", extra="tensorboard", purpose="writing TensorBoard events")
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        try:
            self._writer = SummaryWriter(str(folder), purge_step=purge_step)
        except OSError as error:
            raise self._failure(error) from error

    def append(self, record: Mapping[str, Metric], samples: Sequence[Sample] = ()) -> None:
        """Write the numbers of a training or validation record, and its samples."""
        step = int(record["step"] or 0)
        group = "validation" if any(name.startswith(VALIDATION_PREFIX) for name in record) else "train"
        try:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{group}/{name.removeprefix(VALIDATION_PREFIX)}", value, step)
            if samples:
                self._writer.add_text("validation/samples", format_samples(samples), step)
            self._writer.flush()
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()

    def _failure(self, error: OSError) -> SightlineError:
        return SightlineError(f"could not write TensorBoard events into {self.folder}: {error.strerror or error}")


def format_samples(samples: Sequence[Sample]) -> str:
    """Return samples as Markdown code blocks, so that nothing in them is taken for markup."""
    blocks = ("\n".join(f"    {label:<9}  {text}" for label, text in sample.parts()) for sample in samples)
    return "\n\n---\n\n".join(blocks)
