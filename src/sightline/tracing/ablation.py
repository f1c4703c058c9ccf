"""Head ablation: a pass without some heads, and how the probability of the output changes without each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sightline.config import unknown_name
from sightline.errors import InputError
from sightline.model import ablate_heads
from sightline.model.hooks import Action
from sightline.tracing.likelihood import Step, gather_log_probs
from sightline.tracing.passes import Actions, Pass, make_hooks
from sightline.tracing.plan import Points, Progress, check_indices


def check_ablated_heads(heads: Mapping[str, Sequence[int]], points: Points, n_heads: int) -> dict[str, tuple[int, ...]]:
    """Return the heads to ablate by attention; refuse attentions and heads the model does not have."""
    known = attention_names(points)
    for name in heads:
        if name not in known:
            raise InputError(f"{unknown_name(name, known, what='attention')}: it is one of {known[0]} … {known[-1]}")
    return {name: check_indices("head", numbers, n_heads) for name, numbers in heads.items()}


def attention_names(points: Iterable[str]) -> tuple[str, ...]:
    """Return the attentions among hook points: `decoder.1.cross_attention`."""
    return tuple(name.removesuffix(".head_outputs") for name in points if name.endswith(".head_outputs"))


def ablation_actions(heads: Mapping[str, Sequence[int]]) -> Actions:
    """Return the actions that ablate these heads, given by attention."""
    return {f"{name}.head_outputs": (ablate_heads(*numbers),) for name, numbers in heads.items() if numbers}


@dataclass(frozen=True)
class HeadAblation:
    """Change in log-probability per ablated head; below 0 the head had raised the probability of the output."""

    attentions: tuple[str, ...]
    """The attention layers: `decoder.1.cross_attention`."""
    steps: Float[np.ndarray, "attentions heads steps"]
    """Change in the log-probability of the token chosen at each step, given the same tokens before it."""

    @property
    def total(self) -> Float[np.ndarray, "attentions heads"]:
        """Change in the log-probability of the whole output."""
        return np.asarray(self.steps.sum(axis=2))


TOKENS_PER_BATCH = 4_096


def ablate_each_head(
    forward_pass: Pass,
    steps: Sequence[Step],
    *,
    interventions: Actions,
    progress: Progress,
    batch_tokens: int = TOKENS_PER_BATCH,
) -> HeadAblation:
    """Return how the log-probability of every step changes without each head, given the `interventions` in place."""
    n_heads = forward_pass.model.config.n_heads
    attentions = attention_names(forward_pass.points())
    rows, ids = [step.row for step in steps], [step.choice.id for step in steps]
    size = max(1, min(n_heads, batch_tokens // max(1, forward_pass.n_rows)))
    baseline = gather_log_probs(forward_pass, forward_pass.run(make_hooks(interventions)), rows, ids)
    changes = torch.zeros(len(attentions), n_heads, len(steps))
    for number, name in enumerate(attentions):
        for start in range(0, n_heads, size):
            heads = list(range(start, min(start + size, n_heads)))
            hooks = make_hooks(interventions, {f"{name}.head_outputs": (ablate_one_per_copy(heads),)})
            hidden = forward_pass.run(hooks, copies=len(heads), changed=name.partition(".")[0])
            ablated = gather_log_probs(forward_pass, hidden, rows, ids)
            changes[number, heads] = (ablated - baseline).float().cpu()
        progress("ablating heads", number + 1, len(attentions))
    return HeadAblation(attentions, changes.numpy().astype(np.float32))


def ablate_one_per_copy(heads: Sequence[int]) -> Action:
    """Zero one of these heads in each copy of the batch."""

    def zero(_: str, head_outputs: Tensor) -> Tensor:
        kept = head_outputs.new_ones(head_outputs.shape[:2])
        kept[range(len(heads)), list(heads)] = 0
        return head_outputs * kept[:, :, None, None]

    return zero
