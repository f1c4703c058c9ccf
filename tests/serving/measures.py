"""What a server costs others: memory, and the time that most answers take."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path


def resident_bytes(process: int | str = "self") -> int:
    """Return the memory that a process has now."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def percentile(values: Sequence[float], percent: int) -> float:
    """Return what so many of a hundred values are not above."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
