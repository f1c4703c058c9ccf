"""Read out what a model would say after each of its layers."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sightline.decoding.filters import best_tokens
from sightline.tracing.likelihood import Name, chosen_log_probabilities, log_likelihoods
from sightline.tracing.passes import Pass
from sightline.tracing.readout import Readout
from sightline.tracing.step import Step


def read_out(
    work: Pass, layers: Sequence[Float[Tensor, "T E"]], steps: Sequence[Step], *, k: int, name: Name
) -> Readout:
    """Pass every layer's output through the final norm, where there is one, and the output projection."""
    rows = work.readable
    ids, probabilities, chosen = [], [], []
    for layer in layers:
        hidden = layer[None] if work.final_norm is None else work.final_norm(layer[None])
        found_ids, found_values = top_tokens(work, hidden, rows, k=k)
        ids.append(found_ids.numpy())
        probabilities.append(found_values.numpy())
        final = [step.choice.id for step in steps]
        chosen.append(
            chosen_log_probabilities(work, hidden, [step.row for step in steps], final)[0].exp().cpu().numpy()
        )
    all_ids = np.stack(ids)
    return Readout(
        tower=work.tower,
        rows=rows,
        ids=all_ids,
        probabilities=np.stack(probabilities),
        chosen=np.stack(chosen),
        texts={str(id_): name(id_) for id_ in np.unique(all_ids).tolist()},
    )


def top_tokens(
    work: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int], *, k: int
) -> tuple[Tensor, Tensor]:
    """Return the ids and the probabilities of the k likeliest at each row, n k both."""
    ids, values = [], []
    for _, likely in log_likelihoods(work, hidden, rows):
        best, tokens = best_tokens(likely[0], k)
        ids.append(tokens)
        values.append(best.exp())
    return torch.cat(ids).cpu(), torch.cat(values).cpu()
