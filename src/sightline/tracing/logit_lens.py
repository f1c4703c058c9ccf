"""Logit lens: the tokens a model would predict if it stopped after each of its layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.logits_processors import best_tokens
from sightline.tracing.likelihood import IdToText, Step, gather_log_probs, iter_log_probs
from sightline.tracing.passes import Pass


@dataclass(frozen=True)
class LogitLens:
    """The top tokens after every layer: its output through the final norm (if there is one) and the output matrix.

    The last layer gives the model's own prediction. Earlier layers were never trained to be decoded this way: the
    lower the layer, the less its tokens mean.
    """

    tower: str
    """decoder, or encoder in a Bert."""
    rows: tuple[int, ...]
    """The rows of the tower that are decoded: all; in a sequence classifier only the first, for the whole text."""
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


def compute_logit_lens(
    forward_pass: Pass, layers: Sequence[Float[Tensor, "T E"]], steps: Sequence[Step], *, k: int, name: IdToText
) -> LogitLens:
    """Return the logit lens of every layer's output; `steps` have the tokens whose probability is followed."""
    rows = forward_pass.logit_rows
    ids, probabilities, chosen = [], [], []
    for layer in layers:
        hidden = layer[None] if forward_pass.final_norm is None else forward_pass.final_norm(layer[None])
        found_ids, found_values = top_tokens(forward_pass, hidden, rows, k=k)
        ids.append(found_ids.numpy())
        probabilities.append(found_values.numpy())
        final = [step.choice.id for step in steps]
        chosen.append(
            gather_log_probs(forward_pass, hidden, [step.row for step in steps], final)[0].exp().cpu().numpy()
        )
    all_ids = np.stack(ids)
    return LogitLens(
        tower=forward_pass.tower,
        rows=rows,
        ids=all_ids,
        probabilities=np.stack(probabilities),
        chosen=np.stack(chosen),
        texts={str(id_): name(id_) for id_ in np.unique(all_ids).tolist()},
    )


def top_tokens(
    forward_pass: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int], *, k: int
) -> tuple[Tensor, Tensor]:
    """Return the ids and the probabilities of the k likeliest tokens at each row, both n k."""
    ids, values = [], []
    for _, likely in iter_log_probs(forward_pass, hidden, rows):
        best, tokens = best_tokens(likely[0], k)
        ids.append(tokens)
        values.append(best.exp())
    return torch.cat(ids).cpu(), torch.cat(values).cpu()
