"""What a process sets once about itself: threads, seed, memory. Called by commands, never on import.

Does not import torch by itself, so that the command line can set threads before anything heavy is loaded.
"""

import ctypes
import os
import random
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # malloc.h

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
"""What torch and tokenizers read when they are first imported."""


def use_threads(count: int) -> None:
    """Let everything that computes use this many threads."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count)


def hand_over_threads() -> int:
    """Let the thread that asks compute alone, and return how many threads another one may compute with instead.

    Every thread that computes gets helpers of its own. With more of them than processors, OpenMP lets all of them sleep
    between two sums instead of waiting for the next, and a model that writes token by token is three times as slow.
    """
    import torch

    count = torch.get_num_threads()
    torch.set_num_threads(1)
    return count


def seed_everything(seed: int) -> None:
    """Start every random generator we use from one number."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)


def keep_freed_memory() -> bool:
    """Let the C library hold on to freed memory instead of handing it back to the system; tell whether it will.

    By default glibc maps every large tensor anew and the kernel clears its pages each time, which takes a fifth of a
    training step. Kept memory is simply used again. Other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wishes = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 64 << 20, M_ARENA_MAX: 1}
    return bool(sum(mallopt(option, value) for option, value in wishes.items()) == len(wishes))
