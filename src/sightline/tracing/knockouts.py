"""What each head is worth: how the probability of the output changes without it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Knockouts:
    """Changes of log-probability: below 0 the output became less likely, so that the head had spoken for it."""

    attentions: tuple[str, ...]
    """The attention layers, as `decoder.1.cross_attention`."""
    steps: Float[np.ndarray, "attentions heads steps"]
    """Change of the log-probability of what was chosen at each step, all before it being as they were."""

    @property
    def total(self) -> Float[np.ndarray, "attentions heads"]:
        """Change of the log-probability of the whole output."""
        return np.asarray(self.steps.sum(axis=2))
