"""The process of one contender: `python -m sightline.bench.worker` builds what it is told to, and times it when asked.

Every contender has a process of its own, so that none meets the threads, the allocator or the modules of another, and
so that its peak memory is its own. Messages are lines of JSON on stdin and stdout:

    {"build": "module:function", "arguments": {…}}   → {"facts": {…}}
    {"run": 3}                                       → {"seconds": [of three runs], "peak_bytes": …}
    {"turn": true}                                   → {"seconds": [of a run in this turn], "peak_bytes": …}
    {"output": true}                                 → {"output": what one call returns}
    anything that fails                              → {"error": "one line"}
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from sightline.bench.memory import read_memory
from sightline.model.registry import resolve

SECONDS_PER_TURN = 0.25
"""Short jobs run repeatedly in a turn."""
LONG = 2.0
"""Seconds of a job whose first run counts: what waking up costs is then below a hundredth."""


@dataclass(frozen=True)
class Job:
    """What a contender does again and again."""

    run: Callable[[], Any]
    """Returns what can be compared with the others' results, as JSON can hold it, or nothing."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the report should say of it."""


def own_channel() -> TextIO:
    """Return the real stdout, and send everything that libraries print to stderr."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return channel


def serve(channel: TextIO) -> None:
    """Answer messages until stdin ends."""
    job: Job | None = None
    for line in sys.stdin:
        message = json.loads(line)
        answer: dict[str, Any]
        try:
            if "build" in message:
                job = resolve(message["build"])(**message["arguments"])
                answer = {"facts": dict(job.facts)}
            elif job is None:
                raise RuntimeError("nothing was built")
            elif "output" in message:
                answer = {"output": job.run()}
            else:
                taken = [time_turn(job)] if "turn" in message else [seconds_of(job) for _ in range(message["run"])]
                answer = {"seconds": taken, "peak_bytes": read_memory("VmHWM")}
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {text[0]}"[:300]}
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


def seconds_of(job: Job) -> float:
    """Return how long a run takes."""
    started = time.perf_counter()
    job.run()
    return time.perf_counter() - started


def time_turn(job: Job) -> float:
    """Return how long a run takes once the process is awake.

    While the others had their turns its threads slept and its data left the caches: the first run takes up to twice as
    long as the next, which no training and no server ever sees.
    """
    first = seconds_of(job)
    if first >= LONG:
        return first
    repeats = max(1, round(SECONDS_PER_TURN / first))
    return sum(seconds_of(job) for _ in range(repeats)) / repeats


if __name__ == "__main__":
    serve(own_channel())
