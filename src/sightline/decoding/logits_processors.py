"""Logits processors: the rules of a request, which decide what tokens may come next.

First `LogitsProcessors`, which applies all rules of one request; then each rule as a pure function on the scores of all
rows. The functions keep no state: what a rule needs to know of the past is the history it is given, newest token last,
left-padded with −1. A forbidden token scores −∞. Scores are log-probabilities unless stated otherwise.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.request import LexicalConstraints, Request
from sightline.errors import InputError, SightlineError
from sightline.runtime import widest_float


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
        raise logits_not_finite(int(sentences[row]), length, reason)
    return result


def logits_not_finite(
    sentence: int, length: int, reason: str = "are not numbers (NaN, +∞ or all −∞)"
) -> SightlineError:
    """Return the error for a sentence whose next token cannot be told."""
    return SightlineError(
        f"the model's logits for sentence {sentence + 1} {reason} after {length} tokens; "
        "its weights are damaged or its training diverged"
    )


class LogitsProcessors:
    """Applies all rules of one request to the scores of the next token.

    `bad_words` and `forced_words` are matched in the generated tokens only. Where rules conflict, room for
    `forced_words` takes precedence over `no_repeat_ngram_size`, and a forced prefix over everything.
    """

    def __init__(self, request: Request) -> None:
        settings = request.settings
        self.settings = settings
        self.end_ids = torch.tensor(sorted(set(request.end_ids)), dtype=torch.long, device=request.device)
        self.limits = torch.tensor(request.limits, dtype=torch.long, device=request.device)
        contexts = request.contexts if settings.include_prompt else [()] * len(request.contexts)
        self.context = _pad_sequences(contexts, side="left").to(request.device)
        prefixes = request.prefixes or [()] * len(request.contexts)
        self.prefixes = _pad_sequences(prefixes, side="right").to(request.device)
        self.bad_words = [group.to(request.device) for group in _group_by_length(settings.bad_words)]
        self.constraints = (
            LexicalConstraints(settings.forced_words, device=self.limits.device) if settings.forced_words else None
        )
        self.is_noop = not (
            settings.repetition_penalty != 1
            or settings.no_repeat_ngram_size
            or self.bad_words
            or self.constraints
            or settings.min_new_tokens
            or self.prefixes.size(1)
        )
        """No rule is set: the scores are the log-probabilities themselves, and no history needs to be kept."""

    def process(
        self,
        logits: Float[Tensor, "R V"],
        log_probabilities: Float[Tensor, "R V"],
        *,
        generated: Int[Tensor, "R T"],
        sentences: Int[Tensor, "R"],
    ) -> Float[Tensor, "R V"]:
        """Return the scores to choose the next token by; `sentences` names the sentence of each row.

        Scores are never positive and, except under a repetition penalty, the model's own log-probabilities wherever a
        token is allowed.
        """
        if self.is_noop:
            return log_probabilities
        scores, length = log_probabilities, generated.size(1)
        if self.settings.repetition_penalty != 1:
            history = torch.cat([self.context[sentences], generated], dim=1)
            scores = penalize_repetition(logits.float(), history, self.settings.repetition_penalty).log_softmax(dim=1)
        if self.settings.no_repeat_ngram_size:
            scores = self._forbid_repeats(scores, generated, sentences)
        for group in self.bad_words:
            scores = forbid_sequences(scores, generated, group)
        if length < self.settings.min_new_tokens:
            scores = forbid_tokens(scores, self.end_ids, torch.ones_like(sentences, dtype=torch.bool))
        if self.constraints:
            remaining = self.limits[sentences] - length
            scores = keep_room(scores, generated, self.constraints, remaining=remaining, end_ids=self.end_ids)
        if length < self.prefixes.size(1):
            scores = force_tokens(scores, log_probabilities, self.prefixes[sentences, length])
        return scores

    def _forbid_repeats(
        self, scores: Float[Tensor, "R V"], generated: Int[Tensor, "R T"], sentences: Int[Tensor, "R"]
    ) -> Float[Tensor, "R V"]:
        history = torch.cat([self.context[sentences], generated], dim=1)
        without_repeats = forbid_repeated_ngrams(scores, history, self.settings.no_repeat_ngram_size)
        if self.constraints is None:
            return without_repeats
        has_room = self.constraints.has_room(generated, self.limits[sentences] - generated.size(1))
        return torch.where(has_room[:, None], without_repeats, scores)


def _pad_sequences(sequences: Sequence[Sequence[int]], *, side: Literal["left", "right"]) -> Int[Tensor, "B T"]:
    """Return the sequences as one tensor, padded with −1 on this side."""
    width = max((len(sequence) for sequence in sequences), default=0)
    result = torch.full((len(sequences), width), -1, dtype=torch.long)
    for row, sequence in zip(result, sequences, strict=True):
        start = width - len(sequence) if side == "left" else 0
        row[start : start + len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return result


def _group_by_length(sequences: Sequence[Sequence[int]]) -> list[Int[Tensor, "Q M"]]:
    """Return one tensor per length, with the sequences of that length."""
    groups: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
    for sequence in sequences:
        groups[len(sequence)].append(sequence)
    return [torch.tensor(group) for group in groups.values()]


def penalize_repetition(
    logits: Float[Tensor, "R V"], history: Int[Tensor, "R T"], penalty: float
) -> Float[Tensor, "R V"]:
    """Divide the logits of earlier tokens by `penalty`, multiply negative ones by it (Keskar et al. 2019, 4.1)."""
    if history.size(1) == 0:
        return logits
    # Padding repeats the newest token, which is in the history anyway.
    seen = torch.where(history < 0, history[:, -1:], history)
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores > 0, scores / penalty, scores * penalty))


def forbid_repeated_ngrams(
    scores: Float[Tensor, "R V"], history: Int[Tensor, "R T"], size: int
) -> Float[Tensor, "R V"]:
    """Forbid each token that would repeat an n-gram of this size."""
    length = history.size(1)
    if length < size:
        return scores
    windows = history.unfold(1, size, 1)  # R length-size+1 size
    newest = history[:, None, length - size + 1 :]
    repeats = (windows[..., :-1] == newest).all(dim=2) & (windows >= 0).all(dim=2)
    return scores.masked_fill(_token_mask(windows[..., -1], repeats, scores.size(1)), -math.inf)


def forbid_sequences(
    scores: Float[Tensor, "R V"], history: Int[Tensor, "R T"], sequences: Int[Tensor, "Q M"]
) -> Float[Tensor, "R V"]:
    """Forbid the last token of each of these equally long sequences where the others have just been generated."""
    n_before = sequences.size(1) - 1
    if history.size(1) < n_before:
        return scores
    newest = history[:, None, history.size(1) - n_before :]  # R 1 M-1
    completes = (newest == sequences[:, :-1]).all(dim=2)  # R Q
    last_tokens = sequences[:, -1].expand(len(scores), -1)
    return scores.masked_fill(_token_mask(last_tokens, completes, scores.size(1)), -math.inf)


def forbid_tokens(
    scores: Float[Tensor, "R V"], tokens: Int[Tensor, "Q"], where: Bool[Tensor, "R"]
) -> Float[Tensor, "R V"]:
    """Forbid these tokens in the rows where the condition holds."""
    forbidden = scores[:, tokens].masked_fill(where[:, None], -math.inf)
    return scores.index_copy(1, tokens, forbidden)


def keep_room(
    scores: Float[Tensor, "R V"],
    history: Int[Tensor, "R T"],
    constraints: LexicalConstraints,
    *,
    remaining: Int[Tensor, "R"],
    end_ids: Int[Tensor, "Q"],
) -> Float[Tensor, "R V"]:
    """Forbid the end while a forced sequence is missing, and every token after which the missing ones would not fit."""
    rows, count = len(history), len(constraints.tokens)
    longer = torch.cat([history.repeat_interleave(count, 0), constraints.tokens.repeat(rows)[:, None]], dim=1)
    fits = constraints.outstanding(longer).view(rows, count) < remaining[:, None]
    total, _ = constraints.missing(history)
    kept = scores.masked_fill((total >= remaining)[:, None], -math.inf)
    kept = kept.index_copy(1, constraints.tokens, scores[:, constraints.tokens].masked_fill(~fits, -math.inf))
    return forbid_tokens(kept, end_ids, total > 0)


def force_tokens(
    scores: Float[Tensor, "R V"], log_probabilities: Float[Tensor, "R V"], forced: Int[Tensor, "R"]
) -> Float[Tensor, "R V"]:
    """Allow only the forced token of each row, with the model's own log-probability (−1: no token is forced)."""
    token = forced.clamp(min=0)[:, None]
    only = torch.full_like(scores, -math.inf).scatter(1, token, log_probabilities.gather(1, token))
    return torch.where(forced[:, None] >= 0, only, scores)


def _token_mask(tokens: Int[Tensor, "R Q"], where: Bool[Tensor, "R Q"], vocabulary: int) -> Bool[Tensor, "R V"]:
    """Return a mask that is True at the tokens of each row for which the condition holds."""
    mask = torch.zeros(len(tokens), vocabulary + 1, dtype=torch.bool, device=tokens.device)
    # The other tokens set an extra column, which is cut off.
    return mask.scatter(1, torch.where(where, tokens, vocabulary), value=True)[:, :vocabulary]


def no_token_allowed(sentence: int, length: int) -> InputError:
    """Return the error for a sentence whose rules allow no token."""
    return InputError(
        f"sentence {sentence + 1}: no token is allowed after {length} tokens; "
        "loosen the prefix, bad_words, forced_words, no_repeat_ngram_size or min_new_tokens"
    )


def best_tokens(scores: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R count"], Int[Tensor, "R count"]]:
    """Return the best `count` scores of each row and their tokens (at most V), lowest id first in a tie."""
    if count >= scores.size(1):
        values, tokens = scores.sort(dim=1, descending=True, stable=True)
        return values, tokens
    values, tokens = scores.topk(count + 1, dim=1)
    # topk leaves the order of equal scores open; one more than needed shows a tie at the edge. Ties of −∞ are harmless.
    tied = ((values[:, 1:] == values[:, :-1]) & (values[:, 1:] > -math.inf)).any(dim=1)
    if bool(tied.any()):
        ordered = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], tokens[tied] = ordered.values[:, : count + 1], ordered.indices[:, : count + 1]
    return values[:, :count], tokens[:, :count]


TOP_P_CANDIDATES = (256, 4_096)
"""Numbers of best tokens that usually hold the top-p mass; sorting the whole vocabulary is slow."""


def keep_top_p(scores: Float[Tensor, "R V"], mass: float) -> Float[Tensor, "R V"]:
    """Keep the smallest set of best tokens whose probabilities sum to `mass` (Holtzman et al. 2020, 3.1)."""
    log_total = scores.logsumexp(dim=1, keepdim=True)
    for count in (*TOP_P_CANDIDATES, scores.size(1)):
        values, tokens = best_tokens(scores, count)
        cumulative = (values - log_total).exp().cumsum(dim=1, dtype=widest_float(scores.device))  # R count
        if bool((cumulative[:, -1] >= mass).all()):
            break
    before = cumulative.roll(1, dims=1)
    before[:, 0] = 0
    return torch.full_like(scores, -math.inf).scatter(1, tokens, values.masked_fill(before >= mass, -math.inf))


def keep_min_p(scores: Float[Tensor, "R V"], fraction: float) -> Float[Tensor, "R V"]:
    """Keep the tokens with at least `fraction` of the likeliest one's probability (Nguyen et al. 2025)."""
    threshold = scores.amax(dim=1, keepdim=True) + (math.log(fraction) if fraction else -math.inf)
    return scores.masked_fill(scores < threshold, -math.inf)
