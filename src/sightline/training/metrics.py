"""metrics.jsonl: what a run measured, one JSON object a line, each with its "step". Knows no model and no screen.

A line is written whole and at once, so that another program can follow the run. A kill leaves at most an incomplete
last line. A run that goes on from a checkpoint first cuts the file back to it, so that each step stands there once.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path

from sightline.bundle.atomic import force_to_disk
from sightline.bundle.source import open_regular
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.text.files import Place
from sightline.text.strict_json import parse_object
from sightline.training.state import Metric

FILE_NAME = "metrics.jsonl"
VALIDATION = "validation_loss"
"""What only the record of a validation has."""
LONGEST = 1 << 20
"""Bytes of a line."""

# Never write through a link, never wait for the other end of a pipe.
SAFELY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | SAFELY


class MetricsFile:
    """The measurements of one run; its path need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Metric]) -> None:
        """Add one record, to be read by others from now on; a number that is not finite becomes null.

        Where the disk is full the file stays as it was.
        """
        finite = {name: finite_or_none(value) for name, value in record.items()}
        check(finite)
        # What cannot be UTF-8, half of a surrogate pair, is escaped: as it happens the way JSON does it.
        text = json.dumps(finite, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            append_bytes(self.path, text.encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            raise SightlineError(f"could not write to {self.path}: {error.strerror or error}") from error

    def cut_back(self, step: int, *, validated: int | None = None) -> int:
        """Keep the records up to a step, drop those after it and an incomplete last line; return how many are gone.

        Of validations those up to the step `validated` are kept: the last of a run comes when its step has been saved
        already, so a kill may leave a record of it that the checkpoint does not know, and that will be made again.
        The file is replaced in one instant: a kill leaves the old one or the new one.
        """
        last_validated = step if validated is None else min(step, validated)
        if not os.path.lexists(self.path):
            return 0
        new = self.path.with_name(f"{self.path.name}.tmp-new")
        dropped = 0
        try:
            with new.open("wb") as file:
                for line, record in complete_lines(self.path):
                    if step_of(record) <= (last_validated if VALIDATION in record else step):
                        file.write(line)
                    else:
                        dropped += 1
            force_to_disk(new)
            new.replace(self.path)
            force_to_disk(self.path.parent)
        except OSError as error:
            raise SightlineError(f"could not cut back {self.path}: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)
        return dropped


def read(path: Path) -> list[dict[str, Metric]]:
    """Return all records of a file, which may end in an incomplete line: a run may be writing it."""
    return [record for _, record in complete_lines(path)]


def append_bytes(path: Path, data: bytes) -> None:
    """Add bytes to a file, all of them or none."""
    descriptor = os.open(path, FLAGS, 0o644)
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
    """Yield each line and what it says; the last is left out if it is incomplete, and ended if only its end is lacking.

    Anything else that is not a record is refused, with its file and line.
    """
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "there is no such file")
    with file:
        for number, line in enumerate(lines_of(file, path), start=1):
            try:
                record = parsed(line)
            except InputError as error:
                if line.endswith(b"\n"):
                    raise InputError(f"{Place(path, number)}: {error}") from None
                return
            yield (line if line.endswith(b"\n") else line + b"\n"), record


def lines_of(file: FileIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, their ends included, none of them longer than anyone's."""
    rest = b""
    number = 1
    while block := file.read(LONGEST):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
        number += len(lines)
        if len(rest) > LONGEST:
            raise InputError(f"{Place(path, number)}: this line has more than {LONGEST:,} bytes")
    if rest:
        yield rest


def parsed(line: bytes) -> dict[str, Metric]:
    """Return the record of a line, or refuse it in one sentence."""
    record: dict[str, Metric] = parse_object(line)  # type: ignore[assignment]  # the next line sees to it
    check(record)
    return record


def check(record: Mapping[str, Metric]) -> None:
    """Refuse what is not the record of a step."""
    if type(record.get("step")) is not int or not 0 <= step_of(record) < 1 << 63:
        raise InputError('this record must have its step, a whole number from 0, as "step"')
    for name, value in record.items():
        if value is not None and type(value) not in (int, float, str):
            raise InputError(f"{name[:60]!r} must be a number or text")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{name[:60]!r} is too large for a number")


def step_of(record: Mapping[str, Metric]) -> int:
    """Return the step of a record that has been checked."""
    return int(record["step"] or 0)


def finite_or_none(value: Metric) -> Metric:
    """Return what JSON has a word for; NumPy's floats, which are Python's too, become Python's alone."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
