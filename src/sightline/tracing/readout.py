"""What the model would say if it stopped after each layer."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Readout:
    """The top tokens after every layer: its output through the final norm (where there is one) and the output matrix.

    Known as the logit lens. The last layer's are what the model says; those before it were never trained to be read
    this way, and mean less the further down they stand.
    """

    tower: str
    """decoder, or encoder in a Bert."""
    rows: tuple[int, ...]
    """The rows of the tower that are read out: all of them; in a classifier of texts only the first, [CLS]."""
    ids: Int[np.ndarray, "layers rows k"]
    """The likeliest first."""
    probabilities: Float[np.ndarray, "layers rows k"]
    chosen: Float[np.ndarray, "layers steps"]
    """Probability of what was chosen in the end, at each step."""
    texts: dict[str, str]
    """Every id that occurs, as a person reads it; the keys are ids written as text, for JSON's sake."""

    def text(self, id_: int) -> str:
        """Return an id as a person reads it."""
        return self.texts[str(id_)]
