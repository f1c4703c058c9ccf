"""Metrics in Prometheus' text format."""

import re
import threading

import pytest

from sightline.serving.http import Metrics
from sightline.serving.http.metrics import MAX_SERIES

LINE = re.compile(
    r'(# (HELP|TYPE) [a-z_]+ .+)|([a-z_]+(\{[a-z_]+="([^"\\\n]|\\.)*"(,[a-z_]+="([^"\\\n]|\\.)*")*\})? \S+)'
)


def test_metrics_are_listed_line_by_line():
    metrics = Metrics()
    metrics.counter("asked_total", "How often.", ("route",)).add(3, route='/a"b\\c\nd')
    metrics.gauge("waiting", "How many.").set(2)
    metrics.callback_gauge("now", "This moment.", lambda: 5)
    metrics.histogram("seconds", "How long.", bounds=(0.1, 1.0)).observe(0.5)
    lines = metrics.text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert 'asked_total{route="/a\\"b\\\\c\\nd"} 3' in lines
    assert "waiting 2" in lines
    assert "now 5" in lines
    assert [line for line in lines if line.startswith("seconds")] == [
        'seconds_bucket{le="0.1"} 0',
        'seconds_bucket{le="1"} 1',
        'seconds_bucket{le="+Inf"} 1',
        "seconds_sum 0.5",
        "seconds_count 1",
    ]


def test_large_counts_keep_every_digit():
    metrics = Metrics()
    metrics.counter("tokens_total", "Tokens.").add(123_456_789)
    assert "tokens_total 123456789" in metrics.text().splitlines()


def test_same_name_is_the_same_metric():
    metrics = Metrics()
    metrics.counter("a_total", "A.").add()
    metrics.counter("a_total", "A.").add()
    assert "a_total 2" in metrics.text()
    with pytest.raises(ValueError, match="exists already"):
        metrics.gauge("a_total", "A.")


def test_labels_cannot_grow_without_end():
    counter = Metrics().counter("a_total", "A.", ("route",))
    for number in range(2 * MAX_SERIES):
        counter.add(route=str(number))
    assert len(counter.values) == MAX_SERIES + 1
    assert counter.values["other",] == MAX_SERIES


def test_no_count_is_lost_between_threads():
    counter = Metrics().counter("a_total", "A.")
    threads = [threading.Thread(target=lambda: [counter.add() for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.values[()] == 8000
