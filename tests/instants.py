"""Work that is killed at every instant, without killing anybody.

A kill takes from a process what it has not yet written, and leaves the files as they are: a copy of the folder, made
just before a call, is what a kill at this call would leave. One run through the work gives the copies of all its calls.
"""

import json
import os
import shutil
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline.bundle import weights

MAY_FORK = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
CALLS = ("open", "fsync", "rename", "replace", "mkdir", "rmdir", "unlink", "close", "chmod", "scandir")
Act = Callable[[Path | None], object]


class Watch:
    """Lets `act` do something just before each thing that this thread does to the disk, by these calls.

    With `files` also before a file is opened, and when one has just been written: `act` is then told which, as a kill
    may leave half of it.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, act: Act, *, calls: Sequence[str] = CALLS, files: bool = True
    ) -> None:
        self.act, self.thread, self.is_acting = act, threading.get_ident(), False
        for name in calls:
            patch.setattr(os, name, self.before(getattr(os, name)))
        if files:
            patch.setattr(Path, "open", self.before(Path.open))
            patch.setattr(Path, "write_text", self.after(Path.write_text, place=0))
            patch.setattr(weights, "save_file", self.after(self.before(weights.save_file), place=1))

    def tell(self, written: Path | None = None) -> None:
        """Let `act` act, whose own calls do not count."""
        if self.is_acting or threading.get_ident() != self.thread:
            return
        self.is_acting = True
        try:
            self.act(written)
        finally:
            self.is_acting = False

    def before(self, call: Callable[..., object]) -> Callable[..., object]:
        def instead(*args: object, **kwargs: object) -> object:
            self.tell()
            return call(*args, **kwargs)

        return instead

    def after(self, call: Callable[..., object], *, place: int) -> Callable[..., object]:
        def instead(*args: object, **kwargs: object) -> object:
            result = call(*args, **kwargs)
            self.tell(Path(str(args[place])))
            return result

        return instead


class NthCall:
    """Does something at the n-th call of a `Watch`."""

    def __init__(self, n: int, do: Callable[[], object]) -> None:
        self.left, self.do = n, do

    def __call__(self, written: Path | None) -> None:
        self.left -= 1
        if self.left == 0:
            self.do()

    @property
    def was_reached(self) -> bool:
        return self.left <= 0


def left_by_kills(
    work: Callable[[], object], folder: Path, copies: Path, *, calls: Sequence[str] = CALLS, files: bool = True
) -> list[Path]:
    """Do the work; return a copy of the folder for each of its calls, as a kill would have left it there."""
    found: list[Path] = []

    def keep(written: Path | None) -> None:
        copy = copies / str(len(found)) / folder.name
        copy.parent.mkdir(parents=True)
        if folder.exists():
            shutil.copytree(folder, copy, symlinks=True)
        if written is not None:
            os.truncate(copy / written.relative_to(folder.resolve()), written.stat().st_size // 2)
        found.append(copy)

    with pytest.MonkeyPatch.context() as patch:
        Watch(patch, keep, calls=calls, files=files)
        work()
    return found


def exit_code_of(work: Callable[[], object]) -> int:
    """Do something in a child; return how it ended: 0 if it came to its end, 1 after an exception."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def told_by_child(work: Callable[[], object], file: Path) -> Any:
    """Do something in a child, where there is no other thread; return what it returns, as it is in JSON."""
    assert exit_code_of(lambda: file.write_text(json.dumps(work()))) == 0
    return json.loads(file.read_text())
