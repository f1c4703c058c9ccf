"""Logit lens: what the model would predict if it stopped after each layer."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class LogitLens:
    """The top tokens after every layer: its output through the final norm (if there is one) and the output matrix.

    The last layer gives the model's own prediction. Earlier layers were never trained to be decoded this way: the
    lower the layer, the less its tokens mean.
    """

    tower: str
    """decoder, or encoder in a Bert."""
    rows: tuple[int, ...]
    """The rows of the tower that are decoded: all; in a sequence classifier only the first, [CLS]."""
    ids: Int[np.ndarray, "layers rows k"]
    """Likeliest first."""
    probabilities: Float[np.ndarray, "layers rows k"]
    chosen: Float[np.ndarray, "layers steps"]
    """Probability, after each layer, of the token chosen at each step."""
    texts: dict[str, str]
    """The readable text of every id that occurs; the keys are ids as strings, as in JSON."""

    def text(self, id_: int) -> str:
        """Return the readable text of an id."""
        return self.texts[str(id_)]
