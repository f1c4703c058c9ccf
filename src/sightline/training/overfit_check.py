"""Overfit check: whether a copy of the model can overfit one small batch, tried before hours are spent.

A model that cannot is broken: a loss without gradients, targets that do not belong to their sources, too small a size.
A model that can may still fail to generalize.
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

PASS_RATIO = 0.1
"""Share of the initial loss below which the check passes. Over the three families, 8 to 256 wide, 1 to 6 layers in each
stack, sound models reached 0.07 or less in 60 updates at a good learning rate, and stayed above 0.15 at one far off."""

STUCK_RATIO = 0.9
"""Share of the initial loss above which next to nothing was learned."""

RATES_TIMES_WIDTH = (0.25, 0.1)
"""Learning rates tried, times d_model: wider models need lower ones. Deep post-norm stacks need the second."""

WARMUP_STEPS, GRAD_CLIP = 20, 1.0


@dataclass(frozen=True)
class OverfitCheck:
    """The loss before and after training on one batch."""

    initial_loss: float
    final_loss: float
    passed: bool

    def describe(self) -> str:
        """Return the result in a sentence, with the likely cause of a failure."""
        change = f"the loss on one small batch went from {self.initial_loss:.3f} to {self.final_loss:.3f}"
        if self.passed:
            return f"passed, the model can overfit a batch: {change}"
        return f"failed, the model cannot overfit a batch: {change}; {self._likely_cause()}"

    def _likely_cause(self) -> str:
        if not math.isfinite(self.initial_loss):
            return "it is not finite from the start: look for NaN in the weights and for empty sequences"
        if not math.isfinite(self.final_loss):
            return "it diverged: activations grow too large; set model.pre_norm=true"
        if self.final_loss > STUCK_RATIO * self.initial_loss:
            return (
                "it hardly moved: the weights are frozen, the loss does not depend on them, "
                "or the targets do not depend on the inputs"
            )
        return (
            "a sound model gets below a tenth: this one may be too small, "
            "or the same input occurs with different targets"
        )


def run_overfit_check(
    model: Model,
    batch: Batch,
    loss: Callable[[Model, Batch], Tensor],
    *,
    steps: int = 60,
    learning_rate: float | None = None,
) -> OverfitCheck:
    """Overfit a copy of the model on one batch, without dropout; `loss` is a mean, without label smoothing.

    The model itself and the random generators are unchanged, to the last bit.
    """
    generators = RandomStates.capture()
    default_rates = [product / model.config.d_model for product in RATES_TIMES_WIDTH]
    results: list[OverfitCheck] = []
    try:
        for rate in default_rates if learning_rate is None else [learning_rate]:
            trial = copy.deepcopy(model).eval()
            results.append(overfit(trial, partial(loss, trial, batch), steps=steps, learning_rate=rate))
            if results[-1].passed:
                break
    finally:
        generators.restore()
    return min(results, key=lambda check: check.final_loss if math.isfinite(check.final_loss) else math.inf)


def overfit(model: nn.Module, loss: Callable[[], Tensor], *, steps: int, learning_rate: float) -> OverfitCheck:
    """Train until the loss is low enough, all steps are done, or the loss is not finite."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98)) if parameters else None
    now = loss()
    first = last = float(now.detach())
    for step in range(1, steps + 1):
        if optimizer is None or not now.requires_grad or not math.isfinite(last) or last < PASS_RATIO * first:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, step / WARMUP_STEPS)
        optimizer.zero_grad()
        now.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, GRAD_CLIP)
        optimizer.step()
        now = loss()
        last = float(now.detach())
    return OverfitCheck(first, last, passed=last < PASS_RATIO * first)
