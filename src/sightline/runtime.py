"""Process-wide settings: threads, seed, memory. Called by commands, never on import.

Does not import torch at module level, so that the command line can set threads before loading it.
"""

import ctypes
import os
import random
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # malloc.h

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""Environment variables that torch and tokenizers read when first imported."""


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


def seed_everything(seed: int) -> None:
    """Seed torch's generator, from which weights and dropout are drawn, and Python's.

    NumPy's global generator is not seeded: nothing in the package draws from it, nor from Python's. Data order, masking
    and sampling have generators of their own. Checkpoints hold all three, for code that draws from them.
    """
    import torch

    random.seed(seed)
    torch.manual_seed(seed)


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
