"""Find out what each head is worth by silencing one after another, many at once in one batch."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sightline.model.probe import Action
from sightline.tracing.capture import Actions, watching
from sightline.tracing.knockouts import Knockouts
from sightline.tracing.likelihood import chosen_log_probabilities
from sightline.tracing.passes import Pass
from sightline.tracing.step import Step
from sightline.tracing.wishes import Progress

TOKENS_AT_ONCE = 4_096


def knock_out_each(
    work: Pass, steps: Sequence[Step], *, interventions: Actions, progress: Progress, at_once: int = TOKENS_AT_ONCE
) -> Knockouts:
    """Return how the log-probability of every step changes without each head, on top of what is silenced already."""
    n_heads = work.model.config.n_heads
    attentions = tuple(name.removesuffix(".mixed") for name in work.points() if name.endswith(".mixed"))
    rows, ids = [step.row for step in steps], [step.choice.id for step in steps]
    size = max(1, min(n_heads, at_once // max(1, work.n_rows)))
    whole = chosen_log_probabilities(work, work.run(watching(interventions)), rows, ids)
    changes = torch.zeros(len(attentions), n_heads, len(steps))
    for number, name in enumerate(attentions):
        for start in range(0, n_heads, size):
            heads = list(range(start, min(start + size, n_heads)))
            probe = watching(interventions, {f"{name}.mixed": (one_each(heads),)})
            hidden = work.run(probe, copies=len(heads), changed=name.partition(".")[0])
            without = chosen_log_probabilities(work, hidden, rows, ids)
            changes[number, heads] = (without - whole).float().cpu()
        progress("knocking out heads", number + 1, len(attentions))
    return Knockouts(attentions, changes.numpy().astype(np.float32))


def one_each(heads: Sequence[int]) -> Action:
    """Silence another head in each copy."""

    def silence(_: str, mixed: Tensor) -> Tensor:
        kept = mixed.new_ones(mixed.shape[:2])
        kept[range(len(heads)), list(heads)] = 0
        return mixed * kept[:, :, None, None]

    return silence
