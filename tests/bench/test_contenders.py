"""Contenders take turns in processes of their own; if one fails, the others go on."""

import json
import os
from pathlib import Path

import pytest

from sightline.bench import worker
from sightline.bench.contenders import Contender, Plan, Setting, before, environment, selected
from sightline.bench.measure import Timing, median_seconds, time_interleaved
from sightline.bench.worker import Job
from sightline.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_jobs(monkeypatch):
    """Let the processes import the jobs of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(ROOT / "src")]))
    monkeypatch.setattr("sightline.bench.contenders.PAUSE", 0.0)


def job(name, **arguments):
    return Contender(name, "jobs:counting", settings=(Setting("", arguments),))


def test_contenders_take_turns_in_processes_of_their_own():
    results = Plan(3).run([job("a"), job("b", prints=True)], {"shape": None}, with_output=True)
    assert [len(one.timing.seconds) for one in results] == [3, 3]
    assert len({one.facts["pid"] for one in results} | {os.getpid()}) == 3
    assert [one.output for one in results] == [2, 2]  # after one to warm up
    assert all(one.peak_bytes > 0 or not Path("/proc/self/status").exists() for one in results)


def test_contender_that_fails_is_left_out_and_the_others_go_on():
    contenders = [
        job("ours"),
        Contender("dies", "jobs:dying"),
        Contender("refuses", "jobs:refusing"),
        job("fails later", fails_after=2),
        Contender("absent", "jobs:counting", ("no_such_package",)),
    ]
    ours, dies, refuses, later, absent = Plan(3).run(contenders, {"shape": None})
    assert len(ours.timing.seconds) == 3
    assert [one.timing for one in (dies, refuses, later, absent)] == [None] * 4
    assert dies.error == "ended with 7: Killed by a test"
    assert refuses.error == "RuntimeError: cannot be built here"
    assert later.error == "ValueError: out of luck"
    assert absent.error == "not installed: no_such_package"


def test_contender_without_memory_is_told_from_one_that_fails():
    [one] = Plan(1).run([Contender("large", "jobs:killed")], {"shape": None})
    assert one.error.startswith("was killed by the system: there is probably not enough memory")


def test_fastest_setting_takes_part_and_settings_that_fail_do_not():
    settings = (Setting("slow", {"slow": 0.2}), Setting("fast"), Setting("broken", {"fails_after": 0}))
    [one] = Plan(1).run([Contender("a", "jobs:counting", settings=settings)], {"shape": None})
    assert one.setting == "fast"
    [none] = Plan(1).run([Contender("a", "jobs:refusing", settings=settings)], {"shape": None})
    assert none.error.startswith("slow: RuntimeError: cannot be built here; fast: ")


def test_short_jobs_are_awake_when_their_turn_is_timed(monkeypatch):
    """After a pause the first run is slower; training and servers have no pauses."""
    taken = iter([1.0, 0.1, 0.1, 0.1, 0.1, 0.1])
    monkeypatch.setattr(worker, "seconds_of", lambda job: next(taken))
    monkeypatch.setattr(worker, "SECONDS_PER_TURN", 0.5)
    assert worker.time_turn(Job(lambda: None)) == 0.1
    taken = iter([0.125, *[0.25] * 4])
    assert worker.time_turn(Job(lambda: None)) == 0.25
    assert list(taken) == []
    taken = iter([worker.LONG])
    assert worker.time_turn(Job(lambda: None)) == worker.LONG


def test_before_is_another_work_tree(tmp_path):
    with pytest.raises(InputError, match=r"is no work tree whose code can be compared .* `git worktree add"):
        before(job("a"), tmp_path)
    other = before(job("a"), ROOT)
    assert other.name == "before"
    assert environment(None, other.tree)["PYTHONPATH"] == str(ROOT / "src")
    assert environment(2, None)["OMP_NUM_THREADS"] == "2"


def test_only_selects_peers_and_keeps_ours():
    contenders = [job("sightline"), job("a"), job("b")]
    assert [one.name for one in selected(contenders, ["b"])] == ["sightline", "b"]
    assert selected(contenders, []) == contenders
    with pytest.raises(InputError, match="no such contender; there are sightline, a, b"):
        selected(contenders, ["c"])


def test_timings_compare_round_by_round():
    slow, fast = Timing("slow", (2.0, 20.0, 4.0)), Timing("fast", (1.0, 10.0, 1.0))
    assert fast.speed_against(slow) == 2.0
    assert Timing("one", (1.0,)).spread == (1.0, 1.0)
    assert Timing("five", (5.0, 1.0, 2.0, 3.0, 4.0)).spread == (2.0, 4.0)


def test_time_interleaved_interleaves_and_leaves_warm_up_out():
    calls = []
    timings = time_interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3, warm_up=1)
    assert "".join(calls) == "abababab"
    assert [len(timing.seconds) for timing in timings] == [3, 3]
    assert median_seconds(lambda: calls.append("c"), repeats=3, warm_up=2) >= 0
    assert calls.count("c") == 5


def test_messages_are_lines_of_json_whatever_a_library_prints():
    """See `prints`: what a library writes to stdout must not be taken for an answer."""
    [one] = Plan(1).run([job("a", prints=True)], {"shape": None}, with_output=True)
    assert json.dumps(one.output) == "2"
