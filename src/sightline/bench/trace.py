"""`sightline bench trace`: what it costs to look, beside the same translation with nobody looking.

A sentence of thirty tokens becomes one of thirty tokens, by a model with random weights: what it says does not matter.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.bench.measure import Timing, take_turns
from sightline.bench.train import SIZES
from sightline.bundle import Bundle, Purpose
from sightline.decoding import DecodingSettings
from sightline.model.registry import build, preset
from sightline.pipelines import Translator
from sightline.text import train_characters
from sightline.tracing import EVERYTHING

N_TOKENS = 30
SENTENCE = "abcdefghijklmnopqrstuvwxyzabcd"

WAYS: dict[str, dict[str, Any] | None] = {
    "untraced": None,
    "attention": {"readout": False},
    "attention, readout": {},
    "all probes, readout": {"probes": EVERYTHING},
    "attention, knock-outs": {"readout": False, "knockouts": True},
}
"""What each contender asks a trace for; nothing, who does not look."""


@dataclass(frozen=True)
class Cost:
    """What the ways of looking cost."""

    timings: list[Timing]
    probe_bytes: dict[str, int]
    """Memory of the probes that each keeps."""
    peak_bytes: dict[str, int]
    """By how much, at most, a fresh process grew that did it once; none where the system does not tell."""


def translator(size: str) -> Translator:
    """Return a translator of a well-known size that always writes thirty tokens."""
    name, vocab_size = SIZES[size]
    tokenizer = train_characters([SENTENCE])
    settings = DecodingSettings(max_length=N_TOKENS, min_length=N_TOKENS)
    return Translator(
        Bundle(build(preset(name, vocab_size=vocab_size)), tokenizer, settings, purpose=Purpose("translation"))
    )


def once(work: Translator, way: str) -> Callable[[], object]:
    """Return a call that translates the sentence in one of the ways."""
    asked = WAYS[way]
    if asked is None:
        return lambda: work.translate(SENTENCE)
    return lambda: work.trace(SENTENCE, **asked)


def bench_trace(size: str, *, rounds: int, after_round: Callable[[int], object] = lambda _: None) -> Cost:
    """Time all ways, interleaved, and measure the memory of each in a process of its own."""
    work = translator(size)
    timings = take_turns({way: once(work, way) for way in WAYS}, rounds=rounds, warm_up=1, after_round=after_round)
    sizes = {way: work.trace(SENTENCE, **asked).size for way, asked in WAYS.items() if asked is not None}
    peaks = {way: peak for way in WAYS if (peak := peak_of_fresh_process(size, way)) is not None}
    return Cost(timings, sizes, peaks)


def peak_of_fresh_process(size: str, way: str) -> int | None:
    """Return how much memory, at most, translating once in this way took in a new interpreter, the model aside."""
    code = "import sys; from sightline.bench.trace import growth; print(growth(*sys.argv[1:]))"
    command = [sys.executable, "-c", code, size, way]
    run = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
    return int(run.stdout) or None


def growth(size: str, way: str) -> int:
    """Return by how much this process grew while it translated; 0 where the system does not tell."""
    work = translator(size)
    once(work, "untraced")()  # what is only done the first time is nobody's cost
    call, before = once(work, way), memory("VmRSS")
    if not forget_peak():
        return 0
    kept = call()
    return max(1, memory("VmHWM") - before) if kept is not None else 0


def memory(field: str) -> int:
    """Return bytes that this process has (VmRSS) or had at most (VmHWM), 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def forget_peak() -> bool:
    """Let the system measure the most memory anew from here; say whether it does."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True
