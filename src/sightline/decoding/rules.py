"""All rules of one request, applied together to the scores of all rows."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.filters import (
    forbid_repeated_ngrams,
    forbid_sequences,
    forbid_tokens,
    force_tokens,
    penalize_repetition,
)
from sightline.decoding.request import Request
from sightline.decoding.requirements import Requirements


class Rules:
    """Turns what the model finds likely into what the search may choose from.

    Banned and required sequences are looked for in the generated tokens only. Where both cannot be had, room for
    required sequences goes before `no_repeat_ngram`, and a forced prefix before everything.
    """

    def __init__(self, request: Request) -> None:
        settings = request.settings
        self.settings = settings
        self.end_ids = torch.tensor(sorted(set(request.end_ids)), dtype=torch.long, device=request.device)
        self.limits = torch.tensor(request.limits, dtype=torch.long, device=request.device)
        contexts = request.contexts if settings.context_counts else [()] * len(request.contexts)
        self.context = _aligned(contexts, right=True).to(request.device)
        self.prefixes = _aligned(request.prefixes or [()] * len(request.contexts), right=False).to(request.device)
        self.banned = [group.to(request.device) for group in _by_length(settings.banned)]
        self.requirements = Requirements(settings.required, device=self.limits.device) if settings.required else None
        self.plain = not (
            settings.repetition_penalty != 1
            or settings.no_repeat_ngram
            or self.banned
            or self.requirements
            or settings.min_length
            or self.prefixes.size(1)
        )
        """Nothing is set: the preference is the log-probabilities themselves, and no history needs to be kept."""

    def preference(
        self,
        logits: Float[Tensor, "R V"],
        log_probabilities: Float[Tensor, "R V"],
        *,
        generated: Int[Tensor, "R T"],
        sentences: Int[Tensor, "R"],
    ) -> Float[Tensor, "R V"]:
        """Return the log-probabilities to choose by; the row of `generated` belongs to that one of `sentences`.

        They are never positive and, but for the repetition penalty, the model's own wherever a token is allowed.
        """
        if self.plain:
            return log_probabilities
        scores, length = log_probabilities, generated.size(1)
        if self.settings.repetition_penalty != 1:
            history = torch.cat([self.context[sentences], generated], dim=1)
            scores = penalize_repetition(logits.float(), history, self.settings.repetition_penalty).log_softmax(dim=1)
        if self.settings.no_repeat_ngram:
            scores = self._without_repeats(scores, generated, sentences)
        for group in self.banned:
            scores = forbid_sequences(scores, generated, group)
        if length < self.settings.min_length:
            scores = forbid_tokens(scores, self.end_ids, torch.ones_like(sentences, dtype=torch.bool))
        if self.requirements:
            remaining = self.limits[sentences] - length
            scores = self.requirements.keep_room(scores, generated, remaining=remaining, end_ids=self.end_ids)
        if length < self.prefixes.size(1):
            scores = force_tokens(scores, log_probabilities, self.prefixes[sentences, length])
        return scores

    def _without_repeats(
        self, scores: Float[Tensor, "R V"], generated: Int[Tensor, "R T"], sentences: Int[Tensor, "R"]
    ) -> Float[Tensor, "R V"]:
        history = torch.cat([self.context[sentences], generated], dim=1)
        fresh = forbid_repeated_ngrams(scores, history, self.settings.no_repeat_ngram)
        if self.requirements is None:
            return fresh
        free = self.requirements.free(generated, self.limits[sentences] - generated.size(1))
        return torch.where(free[:, None], fresh, scores)


def _aligned(sequences: Sequence[Sequence[int]], *, right: bool) -> Int[Tensor, "B T"]:
    """Return the sequences as one tensor, padded with −1 on the other side."""
    width = max((len(sequence) for sequence in sequences), default=0)
    result = torch.full((len(sequences), width), -1, dtype=torch.long)
    for row, sequence in zip(result, sequences, strict=True):
        start = width - len(sequence) if right else 0
        row[start : start + len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return result


def _by_length(sequences: Sequence[Sequence[int]]) -> list[Int[Tensor, "Q M"]]:
    """Return one tensor for the sequences of each length."""
    groups: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
    for sequence in sequences:
        groups[len(sequence)].append(sequence)
    return [torch.tensor(group) for group in groups.values()]
