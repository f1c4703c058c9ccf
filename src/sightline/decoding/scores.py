"""How likely, and how good: log-probabilities, length penalty, coverage penalty."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.errors import SightlineError


def log_probabilities(
    logits: Float[Tensor, "R V"], *, sentences: Int[Tensor, "R"], length: int
) -> Float[Tensor, "R V"]:
    """Return the log-softmax in fp32, refusing scores that are none."""
    result = logits.float().log_softmax(dim=1)
    # One NaN or +∞, or nothing but −∞, makes the whole row NaN: the first column tells.
    wrong = result[:, 0].isnan()
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        reason = "are all −∞" if bool((logits[row] == -torch.inf).all()) else "are not numbers (NaN or +∞)"
        raise SightlineError(
            f"the model's scores for sentence {int(sentences[row]) + 1} {reason} after {length} tokens; "
            "its weights are damaged or its training diverged"
        )
    return result


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^α, by which a log-probability is divided (Wu et al. 2016, eq. 14)."""
    return float(((5 + length) / 6) ** alpha)


def coverage_penalty(
    attention: Float[Tensor, "R S"], source_mask: Bool[Tensor, "R S"] | None, beta: float
) -> Float[Tensor, "R"]:
    """Return β Σ log min(a, 1) over the attention a that each source position received in all (Wu et al. 2016, eq. 14).

    It is never positive. A position that nothing looked at at all counts as the smallest positive number.
    """
    logs = attention.clamp(min=torch.finfo(torch.float32).tiny, max=1).log()
    if source_mask is not None:
        logs = logs.masked_fill(~source_mask, 0)
    # Added up one by one: `sum` groups its terms by their number, so that padding would change the last digit.
    return beta * logs.cumsum(dim=1)[:, -1]
