"""Does it learn? Whether a model can learn one small batch by heart, tried on a copy before hours are spent.

What cannot even do that has something wrong with it: a loss that does not reach the weights, targets that do not belong
to their sources, sizes too small. What can may still learn nothing general.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from sightline.model.registry import Model
from sightline.text.batch import Batch
from sightline.training.randomness import RandomStates

LEARNED = 0.1
"""Share of the first loss below which a batch counts as learned. Over the three families, 8 to 256 wide, 1 to 6 layers
in each stack, sound models came to 0.07 or less in 60 updates at a good learning rate, and stayed above 0.15 with one
far off; between the two it depends on the model."""

UNMOVED = 0.9
"""Share of the first loss above which next to nothing was learned."""

RATES_TIMES_WIDTH = (0.25, 0.1)
"""Wider models want smaller steps. One of these two suited each of those models, the second deep post-norm stacks."""

WARM_UP, CLIP_NORM = 20, 1.0


@dataclass(frozen=True)
class SelfCheck:
    """How a model did on one batch."""

    first: float
    """Its loss at the beginning."""
    last: float
    passed: bool

    def sentence(self) -> str:
        """Say what was found, and what is probably wrong."""
        fell = f"the loss on one small batch went from {self.first:.3f} to {self.last:.3f}"
        if self.passed:
            return f"it learns: {fell}"
        return f"it does not learn: {fell}; {self._reason()}"

    def _reason(self) -> str:
        if not math.isfinite(self.first):
            return "it is not a number from the start: look for NaN in the weights, and for sequences without a token"
        if not math.isfinite(self.last):
            return "it did not stay a number: the model's numbers grow too large; norm_order pre keeps them small"
        if self.last > UNMOVED * self.first:
            return (
                "it hardly moved: the weights that matter are frozen, the loss does not depend on them, "
                "or the targets have nothing to do with what the model reads"
            )
        return (
            "a sound model gets below a tenth: this one may be too small for what it must tell apart, "
            "or the same input stands there with different targets"
        )


def self_check(
    model: Model,
    batch: Batch,
    loss: Callable[[Model, Batch], Tensor],
    *,
    steps: int = 60,
    learning_rate: float | None = None,
) -> SelfCheck:
    """Let a copy of the model learn one batch by heart, without dropout; `loss` is a mean, and not smoothed.

    The model itself and the random generators stay as they are, to the last bit.
    """
    generators = RandomStates.now()
    usual = [product / model.config.d_model for product in RATES_TIMES_WIDTH]
    tried: list[SelfCheck] = []
    try:
        for rate in usual if learning_rate is None else [learning_rate]:
            pupil = copy.deepcopy(model).eval()
            tried.append(overfit(pupil, partial(loss, pupil, batch), steps=steps, learning_rate=rate))
            if tried[-1].passed:
                break
    finally:
        generators.apply()
    return min(tried, key=lambda check: check.last if math.isfinite(check.last) else math.inf)


def overfit(pupil: nn.Module, loss: Callable[[], Tensor], *, steps: int, learning_rate: float) -> SelfCheck:
    """Train until the loss is low enough, or all steps are done, or there is no number to go by."""
    parameters = [parameter for parameter in pupil.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98)) if parameters else None
    now = loss()
    first = last = float(now.detach())
    for step in range(1, steps + 1):
        if optimizer is None or not now.requires_grad or not math.isfinite(last) or last < LEARNED * first:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, step / WARM_UP)
        optimizer.zero_grad()
        now.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        optimizer.step()
        now = loss()
        last = float(now.detach())
    return SelfCheck(first, last, passed=last < LEARNED * first)
