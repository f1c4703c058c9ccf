"""`sightline bench trace`: the cost of tracing, compared with the same translation untraced.

Thirty tokens are translated into thirty tokens by a model with random weights.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.bench.measure import Timing, time_interleaved
from sightline.bench.train import SIZES
from sightline.bundle import Bundle
from sightline.data.tokenizers import train_characters
from sightline.decoding import DecodingSettings
from sightline.model.registry import build, preset
from sightline.pipelines import Translator
from sightline.tracing import EVERYTHING

N_TOKENS = 30
SENTENCE = "abcdefghijklmnopqrstuvwxyzabcd"

VARIANTS: dict[str, dict[str, Any] | None] = {
    "untraced": None,
    "attention": {"logit_lens": False},
    "attention, logit lens": {},
    "all activations, logit lens": {"activations": EVERYTHING},
    "attention, head ablation": {"logit_lens": False, "head_ablation": True},
}
"""Contender → its trace options; None: no trace."""


@dataclass(frozen=True)
class Cost:
    """Time and memory of all variants."""

    timings: list[Timing]
    activation_bytes: dict[str, int]
    """Memory of the stored activations."""
    peak_bytes: dict[str, int]
    """Peak memory growth of a new process that translates once; empty if the system does not tell."""


def translator(size: str) -> Translator:
    """Return a translator of a preset size that always generates thirty tokens."""
    name, vocab_size = SIZES[size]
    tokenizer = train_characters([SENTENCE])
    settings = DecodingSettings(max_new_tokens=N_TOKENS, min_new_tokens=N_TOKENS)
    return Translator(Bundle(build(preset(name, vocab_size=vocab_size)), tokenizer, settings))


def translate_once(model: Translator, variant: str) -> Callable[[], object]:
    """Return a function that translates the sentence as one of the variants."""
    options = VARIANTS[variant]
    if options is None:
        return lambda: model.translate(SENTENCE)
    return lambda: model.trace(SENTENCE, **options)


def bench_trace(size: str, *, rounds: int, after_round: Callable[[int], object] = lambda _: None) -> Cost:
    """Time all variants, interleaved, and measure the memory of each in its own process."""
    model = translator(size)
    timings = time_interleaved(
        {variant: translate_once(model, variant) for variant in VARIANTS},
        rounds=rounds,
        warm_up=1,
        after_round=after_round,
    )
    sizes = {
        variant: model.trace(SENTENCE, **options).size for variant, options in VARIANTS.items() if options is not None
    }
    peaks = {variant: peak for variant in VARIANTS if (peak := measure_peak(size, variant)) is not None}
    return Cost(timings, sizes, peaks)


def measure_peak(size: str, variant: str) -> int | None:
    """Return the peak memory growth of one translation in a new interpreter, without the model."""
    code = "import sys; from sightline.bench.trace import memory_growth; print(memory_growth(*sys.argv[1:]))"
    command = [sys.executable, "-c", code, size, variant]
    run = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
    return int(run.stdout) or None


def memory_growth(size: str, variant: str) -> int:
    """Return the peak memory growth of this process during one translation; 0 if the system does not tell."""
    model = translator(size)
    translate_once(model, "untraced")()  # one-time costs do not count
    call, before = translate_once(model, variant), read_memory("VmRSS")
    if not reset_peak_memory():
        return 0
    result = call()
    return max(1, read_memory("VmHWM") - before) if result is not None else 0


def read_memory(field: str) -> int:
    """Return the current (VmRSS) or peak (VmHWM) memory of this process; 0 if the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def reset_peak_memory() -> bool:
    """Reset the peak memory; return whether the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True
