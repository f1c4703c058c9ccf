"""What may come next, each rule a pure function on the scores of all rows.

Nothing here remembers anything: what a rule must know of the past is the history it is handed, newest token last,
padded on the left with −1. A forbidden token scores −∞. Scores are log-probabilities unless said otherwise.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LOOKS = (256, 4_096)  # how many tokens usually hold the mass of top-p; the whole vocabulary is slow to sort


def best_tokens(scores: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R count"], Int[Tensor, "R count"]]:
    """Return the best `count` scores of each row and their tokens (fewer where V is less), lowest id first in a tie."""
    if count >= scores.size(1):
        values, tokens = scores.sort(dim=1, descending=True, stable=True)
        return values, tokens
    values, tokens = scores.topk(count + 1, dim=1)
    # topk leaves the order of equal scores open; one more than asked shows a tie at the edge. Ties of −∞ never matter.
    tied = ((values[:, 1:] == values[:, :-1]) & (values[:, 1:] > -math.inf)).any(dim=1)
    if bool(tied.any()):
        in_order = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], tokens[tied] = in_order.values[:, : count + 1], in_order.indices[:, : count + 1]
    return values[:, :count], tokens[:, :count]


def keep_top_p(scores: Float[Tensor, "R V"], mass: float) -> Float[Tensor, "R V"]:
    """Keep the fewest best tokens whose probabilities reach `mass` together (Holtzman et al. 2020, 3.1)."""
    log_total = scores.logsumexp(dim=1, keepdim=True)
    for look in (*LOOKS, scores.size(1)):
        values, tokens = best_tokens(scores, look)
        reached = (values - log_total).exp().cumsum(dim=1, dtype=torch.float64)  # R look
        if bool((reached[:, -1] >= mass).all()):
            break
    before = reached.roll(1, dims=1)
    before[:, 0] = 0
    return torch.full_like(scores, -math.inf).scatter(1, tokens, values.masked_fill(before >= mass, -math.inf))


def keep_min_p(scores: Float[Tensor, "R V"], fraction: float) -> Float[Tensor, "R V"]:
    """Keep the tokens with at least `fraction` of the likeliest one's probability (Nguyen et al. 2025)."""
    least = scores.amax(dim=1, keepdim=True) + (math.log(fraction) if fraction else -math.inf)
    return scores.masked_fill(scores < least, -math.inf)


def penalize_repetition(
    logits: Float[Tensor, "R V"], history: Int[Tensor, "R T"], penalty: float
) -> Float[Tensor, "R V"]:
    """Divide raw scores of what was there already by `penalty`, negative ones times it (Keskar et al. 2019, 4.1)."""
    if history.size(1) == 0:
        return logits
    seen = torch.where(history < 0, history[:, -1:], history)  # padding stands for the newest token, which is no news
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores > 0, scores / penalty, scores * penalty))


def forbid_repeated_ngrams(
    scores: Float[Tensor, "R V"], history: Int[Tensor, "R T"], size: int
) -> Float[Tensor, "R V"]:
    """Forbid each token that would make the newest `size` tokens a sequence that was already there."""
    length = history.size(1)
    if length < size:
        return scores
    windows = history.unfold(1, size, 1)  # R length-size+1 size
    opening = history[:, None, length - size + 1 :]
    again = (windows[..., :-1] == opening).all(dim=2) & (windows >= 0).all(dim=2)
    return scores.masked_fill(_marked(windows[..., -1], again, scores.size(1)), -math.inf)


def forbid_sequences(
    scores: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sequences: Int[Tensor, "Q M"]
) -> Float[Tensor, "R V"]:
    """Forbid the last token of each of these equally long sequences where the others have just been generated."""
    opening = sequences.size(1) - 1
    if history.size(1) < opening:
        return scores
    newest = history[:, None, history.size(1) - opening :]  # R 1 M-1
    at_last = (newest == sequences[:, :-1]).all(dim=2)  # R Q
    lasts = sequences[:, -1].expand(len(scores), -1)
    return scores.masked_fill(_marked(lasts, at_last, scores.size(1)), -math.inf)


def forbid_tokens(
    scores: Float[Tensor, "R V"], tokens: Int[Tensor, "Q"], where: Bool[Tensor, "R"]
) -> Float[Tensor, "R V"]:
    """Forbid these tokens in the rows where the condition holds."""
    forbidden = scores[:, tokens].masked_fill(where[:, None], -math.inf)
    return scores.index_copy(1, tokens, forbidden)


def force_tokens(
    scores: Float[Tensor, "R V"], log_probabilities: Float[Tensor, "R V"], forced: Int[Tensor, "R"]
) -> Float[Tensor, "R V"]:
    """Leave one token, at the model's own log-probability, in each row that has one to force (−1: none)."""
    token = forced.clamp(min=0)[:, None]
    only = torch.full_like(scores, -math.inf).scatter(1, token, log_probabilities.gather(1, token))
    return torch.where(forced[:, None] >= 0, only, scores)


def _marked(tokens: Int[Tensor, "R Q"], where: Bool[Tensor, "R Q"], vocabulary: int) -> Bool[Tensor, "R V"]:
    """Return a mask that is true at the tokens of each row for which the condition holds."""
    marks = torch.zeros(len(tokens), vocabulary + 1, dtype=torch.bool, device=tokens.device)
    # The others point at one column too many, which is cut off.
    return marks.scatter(1, torch.where(where, tokens, vocabulary), value=True)[:, :vocabulary]
