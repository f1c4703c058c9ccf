"""Scores of hypotheses: log-probabilities, length penalty, coverage penalty."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.errors import SightlineError


def log_probabilities(
    logits: Float[Tensor, "R V"], *, sentences: Int[Tensor, "R"], length: int
) -> Float[Tensor, "R V"]:
    """Return the log-softmax in fp32; raise if the logits are not finite."""
    result = logits.float().log_softmax(dim=1)
    # One NaN or +∞, or all −∞, makes the whole row NaN: the first column shows it.
    wrong = result[:, 0].isnan()
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        reason = "are all −∞" if bool((logits[row] == -torch.inf).all()) else "are not numbers (NaN or +∞)"
        raise SightlineError(
            f"the model's logits for sentence {int(sentences[row]) + 1} {reason} after {length} tokens; "
            "its weights are damaged or its training diverged"
        )
    return result


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^α, the divisor of a log-probability (Wu et al. 2016, eq. 14)."""
    return float(((5 + length) / 6) ** alpha)


def coverage_penalty(
    attention: Float[Tensor, "R S"], source_mask: Bool[Tensor, "R S"] | None, beta: float
) -> Float[Tensor, "R"]:
    """Return β Σ log min(a, 1) over the total attention a to each source position (Wu et al. 2016, eq. 14).

    It is never positive. A position without any attention counts as the smallest positive number.
    """
    logs = attention.clamp(min=torch.finfo(torch.float32).tiny, max=1).log()
    if source_mask is not None:
        logs = logs.masked_fill(~source_mask, 0)
    # Not `sum`, whose grouping of terms depends on their number: padding would change the last digit.
    return beta * logs.cumsum(dim=1)[:, -1]
