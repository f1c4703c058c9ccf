"""Compute the logit lens: the tokens a model would predict after each of its layers."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sightline.decoding.logits_processors import best_tokens
from sightline.tracing.likelihood import IdToText, gather_log_probs, iter_log_probs
from sightline.tracing.logit_lens import LogitLens
from sightline.tracing.passes import Pass
from sightline.tracing.step import Step


def compute_logit_lens(
    forward_pass: Pass, layers: Sequence[Float[Tensor, "T E"]], steps: Sequence[Step], *, k: int, name: IdToText
) -> LogitLens:
    """Pass every layer's output through the final norm, where there is one, and the output projection."""
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
