"""Head ablation: how the probability of the output changes without each head."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


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
