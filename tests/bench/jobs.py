"""Jobs for the tests of the contenders' processes."""

import os
import signal
import sys
import time

from sightline.bench.worker import Job


def counting(shape=None, *, slow=0.0, fails_after=None, prints=False):
    """A job that counts its runs, and fails or prints as it is told."""
    runs = []

    def run():
        runs.append(1)
        if prints:
            print("noise on stdout")  # noqa: T201
        if fails_after is not None and len(runs) > fails_after:
            raise ValueError("out of luck")
        time.sleep(slow)
        return len(runs)

    return Job(run, {"pid": os.getpid(), "path": sys.path[0]})


def dying(shape=None):
    """A job whose process dies."""
    sys.stderr.write("Killed by a test\n")
    sys.stderr.flush()
    os._exit(7)


def refusing(shape=None, **arguments):
    """A job that cannot be built."""
    raise RuntimeError("cannot be built here")


def killed(shape=None):
    """A job whose process the system kills, as it does without memory."""
    os.kill(os.getpid(), signal.SIGKILL)
