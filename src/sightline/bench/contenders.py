"""Contenders and their processes: who takes part, at which settings, and how they take turns.

A peer may have several settings (threads, number formats, compiled or not). Each is tried, and the fastest one takes
part: nobody is beaten at a setting its own users would not choose.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from sightline.bench.measure import Timing
from sightline.errors import InputError
from sightline.runtime import THREAD_VARIABLES

WORKER = "sightline.bench.worker"
TRIALS = 3
"""Runs by which the settings of a contender are compared, after one to warm up."""
PAUSE = 0.2
"""Seconds before each turn. Threads of the contender before may spin for that long before they sleep."""
OURS = "sightline"


@dataclass(frozen=True)
class Setting:
    """One way to run a contender."""

    label: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    """Threads of torch and the like; None: as many as there are cores."""


def with_arguments(settings: tuple[Setting, ...], **arguments: Any) -> tuple[Setting, ...]:
    """Return the settings with more arguments."""
    return tuple(Setting(one.label, {**one.arguments, **arguments}, one.threads) for one in settings)


@dataclass(frozen=True)
class Contender:
    """What takes part: how its process builds its work, and what must be installed for it."""

    name: str
    build: str
    """`module:function`, which returns the `Job`."""
    packages: tuple[str, ...] = ("torch",)
    settings: tuple[Setting, ...] = (Setting(),)
    tree: Path | None = None
    """The work tree whose code runs; None: this one."""

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.packages if find_spec(name) is None]


@dataclass(frozen=True)
class Result:
    """What a contender achieved, or why it did not take part."""

    name: str
    setting: str = ""
    timing: Timing | None = None
    peak_bytes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    error: str | None = None
    is_peer: bool = True
    """Whether it does the same work, so that the speeds can be compared."""


class ContenderError(Exception):
    """A contender's process failed; the message is its own."""


class Process:
    """A contender's process."""

    def __init__(self, contender: Contender, setting: Setting) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
            env=environment(setting.threads, contender.tree),
        )
        self.peak_bytes = 0

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.stderr.close()

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a message and wait for the answer."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the process has no pipes")
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise ContenderError(self.last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(answer["error"])
        return answer

    def time(self, count: int = 1) -> list[float]:
        """Run the job and return the seconds of each run."""
        return self.seconds_of(self.ask(run=count))

    def time_turn(self) -> list[float]:
        """Take a turn and return the seconds of a run in it."""
        return self.seconds_of(self.ask(turn=True))

    def seconds_of(self, answer: Mapping[str, Any]) -> list[float]:
        """Return what was measured, and keep the peak of the memory."""
        self.peak_bytes = answer["peak_bytes"]
        seconds: list[float] = answer["seconds"]
        return seconds

    def last_words(self) -> str:
        """Return the last line that the process wrote to stderr before it died."""
        self.process.wait()
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        if self.process.returncode == -signal.SIGKILL:
            return "was killed by the system: there is probably not enough memory for all contenders, see --only"
        return f"ended with {self.process.returncode}: {lines[-1][:300]}" if lines else "ended without a word"


def environment(threads: int | None, tree: Path | None) -> dict[str, str]:
    """Return the environment of a contender's process. Nothing may look for models on the network."""
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if threads is not None:
        variables.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    if tree is not None:
        variables["PYTHONPATH"] = str(tree / "src")
    return variables


def before(contender: Contender, tree: Path) -> Contender:
    """Return our contender as another work tree has it, such as that of an older commit."""
    module = tree / "src" / Path(*WORKER.split(".")).with_suffix(".py")
    if not module.is_file():
        raise InputError(
            f"{tree} is no work tree whose code can be compared with this one's: it has no {module.relative_to(tree)}. "
            "An older commit is laid out beside this one by `git worktree add DIR COMMIT`"
        )
    return replace(contender, name="before", tree=tree.resolve())


def selected(contenders: Sequence[Contender], only: Sequence[str]) -> list[Contender]:
    """Return the contenders with these names; without names all of them. Ours, the first, always takes part."""
    unknown = [name for name in only if name not in {one.name for one in contenders}]
    if unknown:
        names = ", ".join(one.name for one in contenders)
        raise InputError(f"--only {unknown[0]}: no such contender; there are {names}")
    return [one for one in contenders if not only or one.name in only or one is contenders[0]]


@dataclass(frozen=True)
class Plan:
    """How a benchmark is carried out."""

    rounds: int
    only: Sequence[str] = ()
    """Names of the contenders that take part beside ours; none: all."""
    before: Path | None = None
    """A work tree whose code takes part beside this one's."""
    note: Callable[[str], object] = lambda _: None
    """Told what is being done."""

    def run(
        self, contenders: Sequence[Contender], arguments: Mapping[str, Any], *, with_output: bool = False
    ) -> list[Result]:
        """Let those who take part take turns."""
        chosen = selected(contenders, self.only)
        if self.before is not None:
            chosen.insert(1, before(chosen[0], self.before))
        return run_contenders(chosen, arguments, rounds=self.rounds, with_output=with_output, note=self.note)


def run_contenders(
    contenders: Sequence[Contender],
    arguments: Mapping[str, Any],
    *,
    rounds: int,
    with_output: bool = False,
    note: Callable[[str], object] = lambda _: None,
) -> list[Result]:
    """Let all contenders take turns for some rounds; `note` is told what is being done.

    A contender that is not installed, or fails, has a result that says so; the others go on.
    """
    results = {one.name: Result(one.name, error=None) for one in contenders}
    seconds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        for one in contenders:
            if one.missing:
                results[one.name] = Result(one.name, error=f"not installed: {', '.join(one.missing)}")
                continue
            note(f"{one.name}: preparing")
            try:
                process, setting, facts = stack.enter_context(fastest(one, arguments, note))
                output = process.ask(output=True)["output"] if with_output else None
            except ContenderError as error:
                results[one.name] = Result(one.name, error=str(error))
                continue
            processes[one.name] = process
            results[one.name] = Result(one.name, setting.label, facts=facts, output=output)
        for number in range(rounds):
            note(f"round {number + 1} of {rounds}")
            for name, process in list(processes.items()):
                time.sleep(PAUSE)
                try:
                    seconds.setdefault(name, []).extend(process.time_turn())
                except ContenderError as error:
                    results[name] = Result(name, results[name].setting, error=str(error))
                    del processes[name]
        for name, process in processes.items():
            timing = Timing(name, tuple(seconds[name]))
            results[name] = replace(results[name], timing=timing, peak_bytes=process.peak_bytes)
    return list(results.values())


@contextmanager
def fastest(
    contender: Contender, arguments: Mapping[str, Any], note: Callable[[str], object]
) -> Iterator[tuple[Process, Setting, Mapping[str, Any]]]:
    """Start a contender at its fastest setting, warmed up; raise if it runs at none."""
    best: tuple[float, Setting] | None = None
    problems = []
    if len(contender.settings) > 1:
        for setting in contender.settings:
            note(f"{contender.name}: trying {setting.label}")
            try:
                with Process(contender, setting) as process:
                    process.ask(build=contender.build, arguments={**arguments, **setting.arguments})
                    process.time()
                    taken = min(process.time(TRIALS))
            except ContenderError as error:
                problems.append(f"{setting.label}: {error}")
                continue
            if best is None or taken < best[0]:
                best = taken, setting
        if best is None:
            raise ContenderError("; ".join(problems))
    setting = contender.settings[0] if best is None else best[1]
    with Process(contender, setting) as process:
        facts = process.ask(build=contender.build, arguments={**arguments, **setting.arguments})["facts"]
        process.time()
        yield process, setting, facts
