"""Valid and invalid requests for a long time: no fault, and memory does not grow (T20).

A minute here; `SIGHTLINE_SOAK_MINUTES=30` is what is done before a release.
"""

import json
import os
import statistics
import sys
import threading
import time
from collections import deque
from pathlib import Path

import pytest

from cli.test_serve import server
from pipelines.tiny import (
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
)
from sightline.bench.load_generator import Load, start_load_generator
from sightline.bundle import save

from .measures import resident_bytes

pytestmark = pytest.mark.slow

MINUTES = float(os.environ.get("SIGHTLINE_SOAK_MINUTES", "1"))

ASKED = [
    ("/translate", {"q": ["the cat", "a dog ran"], "target": "de"}),
    ("/translate", {"q": "où est la gare ?", "target": "en", "alternatives": 2}),
    ("/translate", {"q": "x", "target": "tlh"}),
    ("/v1/completions", {"model": "gpt", "prompt": "the cat", "max_tokens": 30, "temperature": 1, "n": 2}),
    ("/v1/completions", {"model": "gpt", "prompt": "the", "max_tokens": 20, "stream": True}),
    ("/v1/completions", {"model": "gpt", "prompt": "cat " * 400}),
    ("/v1/completions", {"model": "nobody", "prompt": "x"}),
    ("/v1/chat/completions", {"model": "talk", "messages": [{"role": "user", "content": "the cat"}]}),
    ("/v1/chat/completions", {"model": "talk", "messages": [{"role": "system", "content": "x"}]}),
    ("/v1/embeddings", {"model": "bert", "input": ["the cat", "漢字"]}),
    ("/tasks/masked-language-model", {"input": "the [MASK] sat"}),
    ("/tasks/masked-language-model", {"input": "no gap"}),
    ("/tasks/classification", {"input": ["the cat", "a dog"]}),
    ("/trace", {"model": "phrases", "input": "the cat", "to": "fr"}),
    ("/trace", {"model": "gpt", "input": "the cat", "head_ablation": True}),
    ("/nowhere", {}),
]
BROKEN = [
    ("/translate", '{"q": NaN}'),
    ("/translate", '{"q": "\\ud800", "target": "de"}'),
    ("/tasks/masked-language-model", "{" * 1000),
    ("/tasks/masked-language-model", ""),
]


def resident_and_open(pid: int) -> tuple[int, int]:
    """Return the memory in bytes and the number of open files of a process."""
    return resident_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_t20_nothing_grows_and_nothing_breaks(tmp_path):
    bundles = {
        "phrases": many_languages_bundle(),
        "talk": chat_bundle(),
        "gpt": generator_bundle(),
        "bert": filler_bundle(),
        "classes": classifier_bundle(),
    }
    for name, bundle in bundles.items():
        save(bundle, tmp_path / name)
    asked = [(path, json.dumps(body)) for path, body in ASKED] + BROKEN
    statuses: dict[str, int] = {}
    samples = []
    with server(*(tmp_path / name for name in bundles)) as (process, url, _), start_load_generator() as generator:
        threading.Thread(target=lambda: deque(process.stderr, maxlen=0), daemon=True).start()  # read the log
        end = time.monotonic() + 60 * MINUTES
        while time.monotonic() < end:
            result = generator.run(Load(url, asked, clients=8, requests_per_client=4 * len(asked)))
            for status, count in result.statuses.items():
                statuses[status] = statuses.get(status, 0) + count
            samples.append(resident_and_open(process.pid))
    quarter = max(1, len(samples) // 4)
    early = [statistics.median(values) for values in zip(*samples[quarter : 2 * quarter] or samples[:1], strict=True)]
    late = [statistics.median(values) for values in zip(*samples[-quarter:], strict=True)]
    sys.stdout.write(
        f"{sum(statuses.values()):,} requests in {MINUTES:g} min: {statuses}; "
        f"memory {early[0] / 1e6:.1f} -> {late[0] / 1e6:.1f} MB, files {early[1]} -> {late[1]}\n"
    )
    assert set(statuses) <= {"200", "400", "404"}, statuses
    assert late[0] <= 1.05 * early[0]
    assert late[1] <= early[1] + 2
