"""The process: threads, device, seed, memory, signals, optional packages. Called by commands, never on import.

Does not import torch at module level, so that the command line can set threads before loading it.
"""

import ctypes
import errno
import importlib
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Literal, get_args

from sightline.errors import InputError, RefusedError

if TYPE_CHECKING:
    import torch

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""Environment variables that torch and tokenizers read when first imported."""


SPINNING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Environment variables that bound how long the threads of GNU's OpenMP, which torch comes with, wait actively."""
SPIN_COUNT, TRAINING_SPIN_COUNT = 5000, 1000
"""Long enough for the next operation, short enough for a neighbor: generating has longer pauses between operations.

Measured alone and beside a busy process, in docs/log.md."""


def limit_spinning(count: int = SPIN_COUNT) -> None:
    """Let idle threads of torch give up their core soon; call it before torch is imported, after that it does nothing.

    By default they spin between two operations, which is fine on an idle machine. Beside another busy process, each
    operation then waits until the system has stopped a spinning thread.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in SPINNING):
        os.environ[SPINNING[0]] = str(count)


def choose_num_threads() -> int:
    """Return how many threads to train with: those set for torch, by default its cores, within a container's limit."""
    import torch

    return max(1, min(torch.get_num_threads(), cpu_quota() or torch.get_num_threads()))


CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def cpu_quota() -> int | None:
    """Return how many cores a container may use at a time, None if it is not limited."""
    with suppress(OSError, ValueError):
        quota, period = CPU_MAX.read_text().split()
        return max(1, int(quota) // int(period))
    return None


def set_num_threads(count: int) -> None:
    """Set the number of threads torch and tokenizers compute with."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count)


def release_threads() -> int:
    """Limit torch to one thread in the calling thread and return how many it had, for another thread to use.

    OpenMP gives every computing thread its own worker threads. With more workers than cores they sleep between two
    operations instead of spinning, and token-by-token generation becomes three times as slow.
    """
    import torch

    count = torch.get_num_threads()
    torch.set_num_threads(1)
    return count


Way = Literal["default", "onednn", "bfloat16"]
"""How a matrix product in training is computed: see `sightline.model.products`."""

MIN_ROWS = 256
"""Fewer rows are always multiplied as torch does by itself: there is little to gain."""
SIZES_PER_OCTAVE = 16
"""Numbers of rows that packed batches are rounded up to, from one power of two to the next: 3 % more on average."""


@dataclass(frozen=True)
class Products:
    """The ways of all matrix products of one model in training, by their shapes, such as "128x512" (inputs, outputs).

    What is not named is computed as torch does by itself.
    """

    linear: Mapping[str, Way] = field(default_factory=dict)
    projection: Mapping[str, Way] = field(default_factory=dict)
    """Of output projections with their loss."""
    attention: Literal["fused", "batched"] = "fused"
    """By torch's fused kernel, or, among few tokens, by batched products."""
    optimizer: Way = "default"
    """Of the products in an update, which Muon has."""

    @property
    def are_default(self) -> bool:
        """Whether everything is computed as torch does by itself."""
        ways = {*self.linear.values(), *self.projection.values(), self.optimizer}
        return ways == {"default"} and self.attention == "fused"

    def way_of(self, kind: Literal["linear", "projection"], inputs: int, outputs: int, *, n_rows: int) -> Way:
        """Return the way of a product of this many rows."""
        ways = self.linear if kind == "linear" else self.projection
        return ways.get(f"{inputs}x{outputs}", "default") if n_rows >= MIN_ROWS else "default"

    def batches_attention(self, n_texts: int, n_heads: int, n_queries: int, n_keys: int, width: int) -> bool:  # noqa: ARG002
        """Whether attention among these tokens is computed by batched products."""
        return self.attention == "batched"

    def round_rows(self, n_rows: int) -> int:
        """Return the number of rows that a packed batch is given: one of few, as oneDNN builds a kernel for each."""
        if self.are_default or n_rows < MIN_ROWS:
            return n_rows
        step = (1 << (n_rows.bit_length() - 1)) // SIZES_PER_OCTAVE
        return -(-n_rows // step) * step


_products: list[Products] = []


def current_products() -> Products | None:
    """Return the ways in force, None outside `multiply_by`."""
    return _products[-1] if _products else None


@contextmanager
def multiply_by(products: Products) -> Iterator[None]:
    """Multiply in these ways while the block lasts."""
    _products.append(products)
    try:
        yield
    finally:
        _products.pop()


DeviceName = Literal["auto", "cpu", "cuda", "mps"]
"""What a user may ask for; `auto` is the process's default (`set_default_device`), else the best device there is."""
ACCELERATORS: tuple[DeviceName, ...] = ("cuda", "mps")
"""What `auto` looks for before it takes the CPU."""

LOCAL_RANK, LOCAL_WORLD_SIZE, WORLD_SIZE = "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"
"""Environment variables set by torchrun: the process among those of this machine, and how many there are."""


@dataclass
class _Defaults:
    device: DeviceName = "auto"
    threads: int | None = None


_defaults = _Defaults()


def set_default_device(name: DeviceName) -> None:
    """Set what `auto` means in this process, as the command line's --device does."""
    _defaults.device = name


def set_default_threads(count: int) -> None:
    """Set the number of threads of this process, as the command line's --threads does."""
    _defaults.threads = count
    set_num_threads(count)


def default_threads() -> int | None:
    """Return what `set_default_threads` has set."""
    return _defaults.threads


@contextmanager
def keep_defaults() -> Iterator[None]:
    """Restore the defaults when a command ends: a program may call several."""
    before = replace(_defaults)
    try:
        yield
    finally:
        _defaults.device, _defaults.threads = before.device, before.threads


def choose_device(wanted: str = "auto") -> "torch.device":
    """Return the device to compute on: this is decided here and nowhere else, and every tensor follows the model.

    Where several processes train together on CUDA, each has a GPU of its own. Devices have an index, as those of
    tensors do, so that the two can be compared.
    """
    import torch

    if wanted not in get_args(DeviceName):
        raise InputError(f"must be auto, cpu, cuda or mps, not {wanted}", option="device")
    name = _defaults.device if wanted == "auto" else wanted
    if name == "auto":
        name = next((name for name in ACCELERATORS if find_obstacle(name) is None), "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if obstacle := find_obstacle(name):
        raise InputError(f"{name} cannot be used: {obstacle}; choose cpu or auto", option="device")
    return torch.device(name, int(os.environ.get(LOCAL_RANK, "0")) if name == "cuda" else 0)


def find_obstacle(name: str) -> str | None:
    """Return why an accelerator cannot be used, or None; all processes of a machine find the same."""
    import torch

    if name == "mps":
        if not torch.backends.mps.is_available():
            return "torch finds no Apple GPU here"
        several = int(os.environ.get(WORLD_SIZE, "1")) > 1
        return "there is one Apple GPU, and processes that train together need one each" if several else None
    if not torch.cuda.is_available():
        return "torch finds no NVIDIA GPU here"
    n_processes, n_gpus = int(os.environ.get(LOCAL_WORLD_SIZE, "1")), torch.cuda.device_count()
    return f"{n_processes} processes need a GPU each, and there are {n_gpus}" if n_processes > n_gpus else None


def widest_float(device: "torch.device") -> "torch.dtype":
    """Return the type to sum many numbers in: 64 bits, or 32 where the device has no more."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


def seed_everything(seed: int) -> None:
    """Seed torch's generator, from which weights and dropout are drawn, and Python's.

    NumPy's global generator is not seeded: nothing in the package draws from it, nor from Python's. Data order, masking
    and sampling have generators of their own. Checkpoints hold all three, for code that draws from them.
    """
    import torch

    random.seed(seed)
    torch.manual_seed(seed)


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # malloc.h


def cache_folder() -> Path:
    """Return the folder for what was measured or built on this machine and can be again; it may not exist yet.

    Raises `OSError` if the user has no home, as in some containers.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sightline"
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "there is no home folder", "~") from None


def keep_freed_memory() -> bool:
    """Make glibc reuse freed memory instead of returning it to the system; return whether it will.

    By default glibc maps every large tensor anew and the kernel clears its pages each time, which takes a fifth of a
    training step. Other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 64 << 20, M_ARENA_MAX: 1}
    return bool(sum(mallopt(option, value) for option, value in options.items()) == len(options))


STOP_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


class StopRequest:
    """Whether a signal asked the run to stop; checked between batches."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - Python calls it with both
        """Store the first signal; exit at once on a second."""
        if self.signal is not None:
            os._exit(128 + number)  # not an exception: it could be caught in the middle of a save
        self.signal = number

    @property
    def exit_code(self) -> int:
        """Exit code as a shell reports the signal (143, 130, 129), 0 without one."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn signals into a stop request while the run lasts; restore the previous handlers afterwards.

    Ignored signals stay ignored (`nohup` ignores SIGHUP). Outside the main thread Python cannot handle signals: there
    is then never a request.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handled = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, request.handle) for number in handled}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def import_optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module of an optional package, or raise an error that names the extra to install.

    If the package is installed but broken, its own error is raised.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise RefusedError(
            f'{purpose} needs the package {package}, which is not installed: pip install "sightline[{extra}]"'
        ) from None


def lazy_exports(
    package: str, modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are imported from its modules on first use.

    So importing one light module of a package, such as its settings, does not import torch.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        limit_spinning()  # the module may import torch
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, list_names
