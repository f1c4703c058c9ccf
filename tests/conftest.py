"""What every test runs under."""

import fcntl
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from sightline.runtime import set_default_device
from type_checks import check_quickly

check_quickly()

# Tests compare with what the CPU computes, also on a machine that has a GPU.
set_default_device("cpu")

# Tiny tensors gain nothing from threads, and two test processes with two threads each would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same digits on every processor: which products are fastest differs from one to the next.
os.environ["SIGHTLINE_PRECISION"] = "float32"

# Tests run in the background may inherit these signals as ignored, and then nothing would arrive.
for ignored in ("SIGINT", "SIGHUP"):
    if hasattr(signal, ignored) and signal.getsignal(getattr(signal, ignored)) == signal.SIG_IGN:
        usual = signal.default_int_handler if ignored == "SIGINT" else signal.SIG_DFL
        signal.signal(getattr(signal, ignored), usual)

# The same examples on every run, however slow the machine: a failure is always the code's.
settings.register_profile("sightline", deadline=None, derandomize=True, database=None, max_examples=20)
settings.load_profile("sightline")

# Hypothesis also tries constants of the modules it finds loaded, and which these are depends on the tests before.
providers._get_local_constants = lambda: providers._local_constants

# No power is cut while tests run: waiting for the disk, thousands of times, would show nothing.
os.fsync = os.fstat  # which still refuses what is no open file


def start_generators() -> None:
    """Let nothing depend on who drew numbers before: tests run in another order each time, in several processes."""
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """Each fixture begins alike, whichever test asks for it first."""
    start_generators()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """And so does each test."""
    start_generators()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT with its tokenizer, to be read only."""
    # Imported here: at the top it would come before the hook that checks shapes.
    from sightline.bundle import Bundle, save
    from sightline.data.tokenizers import train_bpe
    from sightline.model.registry import build, read_config

    tokenizer = train_bpe(["tiny models tell no tales"] * 3, vocab_size=270)
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 8, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    folder = tmp_path_factory.mktemp("folder") / "model"
    save(Bundle(build(read_config("gpt", sizes)), tokenizer), folder)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Really trained small models, to be read only: `trained("phrases")` is a run folder (names: `trained.LESSONS`).

    Each is trained when it is first asked for, once for all processes of a test run.
    """
    from trained import train

    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"
    root.mkdir(exist_ok=True)

    def folder_of(name: str) -> Path:
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / name / "model").exists():
                train(name, root / name)
        return root / name

    return folder_of
