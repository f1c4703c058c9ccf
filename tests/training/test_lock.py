"""One run a folder."""

import json
import os
import signal
import socket
import threading

import pytest

from instants import MAY_FORK
from sightline.errors import RefusedError, SightlineError
from sightline.training.lock import lock_run, wait_for_lock

from .turns import LONG, waiting_noticed


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
    monkeypatch.setattr("sightline.training.lock.fcntl", None)
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
