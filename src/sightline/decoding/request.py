"""The request of a search: its sentences, settings and lexical constraints, checked before the first step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sightline.decoding.settings import DecodingSettings, contains
from sightline.errors import InputError, SightlineError


class SearchCancelledError(SightlineError):
    """A search was cancelled before it was done."""

    def __init__(self) -> None:
        super().__init__("the search was cancelled")


class Cancellation:
    """Ends the searches it was given to before their next step; any thread may cancel."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._listeners: list[Callable[[], object]] = []

    def cancel(self) -> None:
        """End the searches."""
        self.is_cancelled = True
        for listener in list(self._listeners):
            listener()

    @contextmanager
    def notify(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call a function as soon as it is cancelled, while the block lasts: for a search that cannot look itself."""
        self._listeners.append(listener)
        try:
            if self.is_cancelled:
                listener()
            yield
        finally:
            self._listeners.remove(listener)


@dataclass(frozen=True)
class Request:
    """The sentences of one search, the settings, and everything specific to each sentence."""

    contexts: Sequence[Sequence[int]]
    """Per sentence, the ids before the first generated one. The last is fed first; the state has seen the others."""
    settings: DecodingSettings
    end_ids: Sequence[int]
    """Tokens that end a text. With none, every text ends at its length limit or a stop string."""
    prefixes: Sequence[Sequence[int]] | None = None
    """Per sentence, the tokens it must start with; they count as generated."""
    max_new_tokens: Sequence[int] | None = None
    """Per sentence, its own limit, if below `max_new_tokens` of the settings."""
    seeds: Sequence[int | None] | None = None
    """Per sentence, its own seed instead of that of the settings."""
    is_complete: Callable[[Sequence[int]], bool] | None = None
    """Tells whether a text is complete with these generated ids, though they do not finish with an end token."""
    source_mask: Bool[Tensor, "B S"] | None = None
    """For the coverage penalty: True at source tokens, False at padding. None: no padding."""
    device: torch.device | str = "cpu"
    """The device of the step's ids and logits."""
    cancellation: Cancellation | None = None
    """Lets another thread end the search between two steps."""

    def __post_init__(self) -> None:
        problems = list(self._count_mismatches()) or [*self._impossible_contexts(), *self._impossible_prefixes()]
        if self.settings.stop and self.is_complete is None:
            problems.append("stop strings need is_complete, which finds them in the text of the ids")
        problems += [
            f"forced_words {s} holds an end token" for s in self.settings.forced_words if set(s) & set(self.end_ids)
        ]
        if problems:
            raise InputError("; ".join(problems))

    @property
    def limits(self) -> list[int]:
        """Per sentence, the maximum number of generated tokens."""
        limit = self.settings.max_new_tokens
        return [min(limit, own) for own in self.max_new_tokens] if self.max_new_tokens else [limit] * len(self.contexts)

    def check_cancelled(self) -> None:
        """Raise if the search was cancelled; called before every step."""
        if self.cancellation is not None and self.cancellation.is_cancelled:
            raise SearchCancelledError

    def check_vocabulary(self, size: int) -> None:
        """Raise if any id is outside the model's vocabulary, whose size is only known from its first logits."""
        given = {
            "end_ids": [self.end_ids],
            "bad_words": self.settings.bad_words,
            "forced_words": self.settings.forced_words,
            "prefixes": self.prefixes or [],
        }
        outside = [
            f"{name}: {token}"
            for name, sequences in given.items()
            for token in sorted({token for sequence in sequences for token in sequence})
            if not 0 <= token < size
        ]
        if outside:
            raise InputError(f"outside the vocabulary of {size:,} tokens: {'; '.join(outside)}")

    def _count_mismatches(self) -> Iterator[str]:
        given = {
            "prefixes": self.prefixes,
            "max_new_tokens": self.max_new_tokens,
            "seeds": self.seeds,
            "source_mask": self.source_mask,
        }
        for name, values in given.items():
            if values is not None and len(values) != len(self.contexts):
                yield f"{name} are for {len(values)} sentences, contexts for {len(self.contexts)}"

    def _impossible_contexts(self) -> Iterator[str]:
        for number, (context, limit) in enumerate(zip(self.contexts, self.limits, strict=True), start=1):
            if not context:
                yield f"sentence {number} has no context: at least one id must be fed to the model first"
            if limit < 1:
                yield f"sentence {number} has a max_new_tokens of {limit}: it must be 1 or more"

    def _impossible_prefixes(self) -> Iterator[str]:
        constraints = LexicalConstraints(self.settings.forced_words)
        prefixes = self.prefixes or [()] * len(self.contexts)
        for number, (prefix, limit) in enumerate(zip(prefixes, self.limits, strict=True), start=1):
            if len(prefix) > limit:
                yield f"sentence {number} has a prefix of {len(prefix)} tokens and a max_new_tokens of {limit}"
                continue
            if set(prefix) & set(self.end_ids):
                yield f"the prefix of sentence {number} holds an end token"
            for bad in self.settings.bad_words:
                if contains(prefix, bad):
                    yield f"the prefix of sentence {number} contains bad_words {bad}"
            if prefix and self.is_complete is not None and self.is_complete(prefix):
                yield f"the prefix of sentence {number} is complete already: it contains a stop string"
            outstanding = int(constraints.outstanding(torch.tensor([list(prefix)], dtype=torch.long)))
            if outstanding > limit - len(prefix):
                room = f"{limit - len(prefix)} of max_new_tokens {limit} are left"
                yield f"forced_words need {outstanding} more tokens, but for sentence {number} {room}"


class LexicalConstraints:
    """Sequences of ids that must each appear at least once, without gaps.

    The outstanding tokens are those of all missing sequences, minus the part already generated of the most advanced
    one. Completing that one and then generating the others satisfies all, and each token of this plan lowers the count
    by at least one. So if only tokens are allowed after which the count fits into the remaining length, there always is
    one, and at the length limit nothing is missing. (Two sequences may overlap where one ends as the other begins; the
    plan does not rely on it.)

    Everything is a pure function of the tokens generated so far, so nothing must be reordered with the rows of a beam.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], *, device: torch.device | None = None) -> None:
        needed = drop_contained(sequences)
        self.sequences = [torch.tensor(sequence, device=device) for sequence in needed]
        self.tokens = torch.tensor(sorted({i for sequence in needed for i in sequence}), device=device)

    def missing(self, history: Int[Tensor, "R T"]) -> tuple[Int[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the tokens of all missing sequences, and how many of the most advanced one are generated already."""
        length = history.size(1)
        total = history.new_zeros(len(history))
        begun = history.new_zeros(len(history))
        for sequence in self.sequences:
            size = len(sequence)
            is_missing = torch.ones_like(total, dtype=torch.bool)
            if length >= size:
                is_missing = ~(history.unfold(1, size, 1) == sequence).all(dim=2).any(dim=1)
            total = total + size * is_missing
            for part in range(1, min(size - 1, length) + 1):
                ends_in_part = is_missing & (history[:, length - part :] == sequence[:part]).all(dim=1)
                begun = torch.where(ends_in_part, begun.clamp(min=part), begun)
        return total, begun

    def outstanding(self, history: Int[Tensor, "R T"]) -> Int[Tensor, "R"]:
        """Return how many more tokens satisfy all constraints."""
        total, begun = self.missing(history)
        return total - begun

    def has_room(self, history: Int[Tensor, "R T"], remaining: Int[Tensor, "R"]) -> Bool[Tensor, "R"]:
        """Return which rows still have room for a token that belongs to no sequence."""
        return self.missing(history)[0] < remaining


def drop_contained(sequences: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the distinct sequences, without those contained in another."""
    distinct = list(dict.fromkeys(tuple(sequence) for sequence in sequences))
    return [one for one in distinct if not any(one != other and contains(other, one) for other in distinct)]
