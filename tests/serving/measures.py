"""Measurements: resident memory and percentiles."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path


def resident_bytes(process: int | str = "self") -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of the values."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
