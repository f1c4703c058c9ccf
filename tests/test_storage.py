"""Files are never half written, JSON is unambiguous or refused, and one run holds a folder."""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instants import MAY_FORK
from sightline.errors import JSONError, RefusedError, SightlineError
from sightline.storage import MAX_MARKS, lock_run, parse_json, parse_object, wait_for_lock
from turns import LONG, waiting_noticed

MAX_DEPTH = 32
parse = partial(parse_json, max_depth=MAX_DEPTH, max_marks={}, interoperable=True)
"""As strict as can be."""

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_ordinary_json_is_parsed_as_python_does(value):
    data = json.dumps(value, ensure_ascii=False).encode("utf-8")
    assert parse_json(data) == parse(data) == json.loads(data)


@pytest.mark.parametrize(
    ("data", "kind", "detail"),
    [
        (b"[NaN]", "constant", "NaN"),
        (b'{"a": -Infinity}', "constant", "-Infinity"),
        (b'{"a": 1, "a": 1}', "duplicate_key", "a"),
        (b"[" * 100_000, "depth", ""),
        (b'{"a":' * 100_000, "depth", ""),
        (b"[" * 100_000 + b"]" * 100_000, "depth", ""),
        (b"1" * 5000, "integer", ""),
        (b'"\xff"', "encoding", "1"),
        (b"\xef\xbb\xbf{}", "byte_order_mark", ""),
        (b"{} {}", "syntax", "line 1, column 4: Extra data"),
        (b"{'a': 1}", "syntax", "line 1, column 2: Expecting property name enclosed in double quotes"),
        (b"", "syntax", "line 1, column 1: Expecting value"),
    ],
)
@pytest.mark.parametrize("parse", [parse_json, parse])
def test_invalid_json_is_refused_with_its_kind(parse, data, kind, detail):
    with pytest.raises(JSONError) as caught:
        parse(data)
    assert (caught.value.kind, caught.value.detail) == (kind, detail)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"1e999", "number"),
        (b"-1e999", "number"),
        (b"9223372036854775808", "integer"),
        (b"-9223372036854775809", "integer"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
    ],
)
def test_what_other_parsers_read_differently_is_refused_only_if_asked_for(data, kind):
    assert parse_json(data) == json.loads(data)
    with pytest.raises(JSONError) as caught:
        parse(data)
    assert caught.value.kind == kind


def test_whole_number_with_a_decimal_point_is_an_integer_only_if_asked_for():
    assert [type(parse(b"8.0")), type(parse_json(b"8.0"))] == [int, float]


def test_large_json_is_refused_before_it_is_parsed():
    with pytest.raises(JSONError, match="this JSON has more than 3 bytes"):
        parse_json(b"[[]]", max_bytes=3)
    with pytest.raises(JSONError, match=r"this JSON has more than 2 '\[': too many for a model"):
        parse_json(b"[[], []]", max_marks={b"[": 2})
    for mark, limit in MAX_MARKS.items():
        with pytest.raises(JSONError, match=f"more than {limit:,}"):
            parse_json(mark * (limit + 1))


def test_object_is_required_where_entries_are_named():
    assert parse_object(b'{"a": [1]}') == {"a": [1]}
    with pytest.raises(RefusedError, match="not an object with named entries"):
        parse_object(b"[]")


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_depth_is_allowed_up_to_the_limit_and_no_further(pair):
    def nested(depth: int) -> bytes:
        return (pair[0] * depth + "1" + pair[1] * depth).encode()

    assert parse(nested(MAX_DEPTH))
    with pytest.raises(JSONError, match="nested too deeply"):
        parse(nested(MAX_DEPTH + 1))


def test_brackets_in_strings_do_not_count_as_depth():
    text = "[{" * 1000 + '"\\'
    assert parse(json.dumps([text]).encode()) == [text]


def test_whole_surrogate_pair_is_a_character():
    assert parse(b'"\\ud83d\\ude00"') == "😀"


LARGE: dict[str, tuple[Callable[[int], bytes], str | None]] = {
    "numbers": (lambda n: b"[" + b"1," * (n // 2) + b"1]", None),
    "lists": (lambda n: b"[" * 31 + b"[]," * (n // 3) + b"[]" + b"]" * 31, None),
    "quotes": (lambda n: b'["' + b'\\"' * (n // 2) + b'"]', None),
    "no end": (lambda n: b'{"a":"' + b'\\"' * (n // 2), "not JSON"),
    "escapes": (lambda n: b'["\\u0041' + b"a" * n + b'"]', None),
}
"""Bodies of about n bytes that would block a backtracking parser, and why some are refused."""


@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte_of_anything_is_read_or_refused(kind):
    make, reason = LARGE[kind]
    data = make(1_000_000)
    with pytest.raises(JSONError, match=reason) if reason else contextlib.nullcontext():
        assert parse(data) == json.loads(data)


def n_calls(data: bytes) -> int:
    """Return the number of function calls, in Python and C, while a body is parsed or refused."""
    events = 0

    def count(*_: object) -> None:
        nonlocal events
        events += 1

    gc.disable()  # its calls do not belong to the parser
    sys.setprofile(count)
    try:
        with contextlib.suppress(JSONError):
            parse(data)
    finally:
        sys.setprofile(None)
        gc.enable()
    return events


@pytest.mark.parametrize("kind", LARGE)
def test_parsing_takes_no_more_calls_for_a_larger_body(kind):
    """No Python or C function is called once for each part of a body, let alone for each pair."""
    make, _ = LARGE[kind]
    assert n_calls(make(100_000)) == n_calls(make(1000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte_of_anything_is_read_or_refused_soon(kind):
    """Parsing is not quadratic: a body of maximum size must not block the server for long."""
    data = LARGE[kind][0](1_000_000)
    begun = time.process_time()
    with contextlib.suppress(JSONError):
        parse(data)
    assert time.process_time() - begun < 5


def hold_in_a_child(folder) -> int:
    """Start a process that holds the folder until it is killed; return its number once it does."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with lock_run(folder):
            os.write(tell, b"!")
            signal.pause()
        os._exit(0)
    os.read(ready, 1)
    return child


def test_second_run_is_refused_at_once_and_told_who_holds_the_folder(tmp_path):
    with (
        lock_run(tmp_path),
        pytest.raises(RefusedError) as caught,
        lock_run(tmp_path),
    ):  # who waited would wait for ever
        pass
    holder = rf"process {os.getpid()} on {socket.gethostname()}, since 2"
    caught.match(f"in use by another run \\({holder}.*: wait until it ends, stop it, or choose another folder")
    assert caught.value.exit_code == 2


def test_lock_is_released_when_the_run_ends(tmp_path):
    for _ in range(2):
        with lock_run(tmp_path):
            pass


def test_lock_is_released_when_the_run_fails(tmp_path):
    with pytest.raises(KeyError), lock_run(tmp_path):
        raise KeyError
    with lock_run(tmp_path):
        pass


@MAY_FORK
def test_lock_of_another_process_holds_until_it_is_killed(tmp_path):
    child = hold_in_a_child(tmp_path)
    try:
        with pytest.raises(RefusedError, match=f"process {child} on"), lock_run(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with lock_run(tmp_path):  # what the killed run left is taken over, and signed anew
        assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("left", [b"", b"\xff\x00", b"[1]", b'{"pid": {}}' * 500])
def test_lock_file_that_says_nothing_useful_is_no_obstacle(tmp_path, left):
    (tmp_path / "run.lock").write_bytes(left)
    with lock_run(tmp_path):
        (tmp_path / "run.lock").write_bytes(left)
        with pytest.raises(RefusedError, match="in use by another run"), lock_run(tmp_path):
            pass


def test_folder_is_made(tmp_path):
    with lock_run(tmp_path / "runs" / "new"):
        assert (tmp_path / "runs" / "new").is_dir()


def test_folder_that_cannot_be_locked_is_said_plainly(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SightlineError, match="could not lock the folder"), lock_run(tmp_path / "file" / "run"):
        pass


def test_lock_does_not_follow_a_link(tmp_path):
    (tmp_path / "run.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SightlineError, match="could not lock"), lock_run(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_system_without_locks_can_train(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.storage.fcntl", None)
    with lock_run(tmp_path), lock_run(tmp_path):
        pass


def test_who_shares_a_folder_waits_for_his_turn(tmp_path):
    order = []

    def second() -> None:
        with wait_for_lock(tmp_path / "shared"):
            order.append("second")

    waiting = threading.Thread(target=second)
    with wait_for_lock(tmp_path / "shared"), waiting_noticed() as is_about_to_wait:
        waiting.start()
        assert is_about_to_wait.wait(LONG)
        order.append("first")
    waiting.join(LONG)
    assert order == ["first", "second"]


def test_where_nothing_can_be_written_nobody_waits(tmp_path):
    (tmp_path / "file").touch()
    with wait_for_lock(tmp_path / "file" / "folder"):
        pass
