"""What this machine can do at most: matrix products and reading, measured; and what a workload needs of both.

A training step cannot be faster than its matrix products, nor a decoding step at batch 1 than reading every weight
once. The best rates that any library here reaches are the yardstick, not those that torch chooses by itself.
"""

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from sightline.bench.measure import median_seconds, seconds_of

GEMM_SHAPE = (2048, 2048, 2048)
"""Rows, inputs and outputs of the product that is timed: large enough for every library's best."""
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_tile", "asimd", "bf16")
"""Processor features that decide which products are fast."""
PACKAGES = ("torch", "transformers", "x-transformers", "ctranslate2", "onnxruntime", "xllamacpp")


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    processor: str
    features: tuple[str, ...]
    cores: int
    threads: int
    versions: dict[str, str]
    load: float
    """Other work on the machine when it began, in busy cores; idle is 0."""

    def __str__(self) -> str:
        busy = f"; {self.load:g} busy cores when it began" if self.load >= 0.5 else ""
        features = ", ".join(self.features) or "no known features"
        return f"{self.processor} ({features}), {self.threads} of {self.cores} cores{busy}"


def describe_machine() -> Machine:
    """Return what a figure must be read with."""
    info = Path("/proc/cpuinfo")
    fields: dict[str, str] = {}
    for line in info.read_text().splitlines() if info.exists() else []:
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    flags = fields.get("flags", fields.get("Features", "")).split()
    family = f" family {fields['cpu family']}" if "cpu family" in fields else ""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Machine(
        fields.get("model name", platform.processor() or platform.machine()) + family,
        tuple(flag for flag in FLAGS if flag in flags),
        os.cpu_count() or 1,
        torch.get_num_threads(),
        installed_versions(),
        round(load, 1),
    )


def installed_versions() -> dict[str, str]:
    """Return the versions of the contenders' packages that are installed."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@dataclass(frozen=True)
class GemmRates:
    """Matrix products, in multiplications and additions per second."""

    fp32_mkl: float
    """As torch multiplies by default."""
    fp32: float
    """The fastest way to multiply 32-bit numbers that is here (oneDNN with reordered weights)."""
    bf16: float
    """Numbers of 16 bits: much faster where the processor has units for them, slower elsewhere."""

    @property
    def best(self) -> float:
        """The fastest of all."""
        return max(self.fp32, self.bf16)


@cache
def gemm_rates() -> GemmRates:
    """Measure large products."""
    n_rows, n_inputs, n_outputs = GEMM_SHAPE
    x, weight = torch.randn(n_rows, n_inputs), torch.randn(n_outputs, n_inputs)
    narrow_x, narrow_weight = x.bfloat16(), weight.bfloat16()
    work = 2 * n_rows * n_inputs * n_outputs

    def rate(multiply: Callable[[], object]) -> float:
        return work / median_seconds(multiply, repeats=7, warm_up=2)

    plain = rate(lambda: F.linear(x, weight))
    reordered = reordered_linear(weight, n_rows)
    fast = plain if reordered is None else rate(lambda: reordered(x))
    once = seconds_of(lambda: F.linear(narrow_x, narrow_weight))  # without units for bf16 it takes seconds
    bf16 = work / once if once > 1 else rate(lambda: F.linear(narrow_x, narrow_weight))
    return GemmRates(plain, max(plain, fast), bf16)


def reordered_linear(weight: torch.Tensor, n_rows: int) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Return a product by oneDNN, its weights laid out as it likes them; None where torch has no oneDNN."""
    try:
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight, n_rows)
        torch.ops.mkldnn._linear_pointwise(weight.new_zeros(n_rows, weight.size(1)), laid_out, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, laid_out, None, "none", [], "")


@cache
def read_rate(n_bytes: int) -> float:
    """Measure how many bytes a second all threads read, again and again, of a block of this size."""
    block = torch.ones(max(1024, n_bytes // 4))
    repeats = max(5, min(200, int(2e9 // (4 * block.numel()))))
    return 4 * block.numel() / median_seconds(block.sum, repeats=repeats, warm_up=3)


def count_flops(call: Callable[[], Any]) -> int:
    """Count the multiplications and additions of a call's matrix products, attention's included."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:  # the fused kernel is not counted
        call()
    return int(counter.get_total_flops())
