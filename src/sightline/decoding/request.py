"""What a search is asked to do, checked as a whole before the first step: all that is known besides the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from sightline.decoding.requirements import Requirements
from sightline.decoding.sequences import contains
from sightline.decoding.settings import DecodingSettings
from sightline.errors import InputError


@dataclass(frozen=True)
class Request:
    """The sentences of one search and everything that is particular to them."""

    contexts: Sequence[Sequence[int]]
    """Per sentence the ids before the first generated one. The last is fed first; the state has seen those before."""
    settings: DecodingSettings
    end_ids: Sequence[int]
    """Tokens that end a text. With none, every text ends at its length limit or a stop string."""
    prefixes: Sequence[Sequence[int]] | None = None
    """Per sentence the tokens it must begin with; they count as generated."""
    max_lengths: Sequence[int] | None = None
    """Per sentence a limit of its own, where that is below the settings' `max_length`."""
    seeds: Sequence[int | None] | None = None
    """Per sentence a seed of its own in place of the settings' `seed`."""
    to_text: Callable[[Sequence[int]], str] | None = None
    """Turns generated ids into the text in which stop strings are looked for."""
    source_mask: Bool[Tensor, "B S"] | None = None
    """For the coverage penalty: which positions of each source are words (True) and not padding. None: all are."""
    device: torch.device | str = "cpu"
    """Where the step takes its ids and gives its scores."""

    def __post_init__(self) -> None:
        problems = list(self._uneven()) or [*self._impossible_contexts(), *self._impossible_prefixes()]
        if self.settings.stop and self.to_text is None:
            problems.append("stop strings need to_text, which turns ids into text")
        problems += [f"required {s} holds an end token" for s in self.settings.required if set(s) & set(self.end_ids)]
        if problems:
            raise InputError("; ".join(problems))

    @property
    def limits(self) -> list[int]:
        """Per sentence how many tokens it may have."""
        most = self.settings.max_length
        return [min(most, own) for own in self.max_lengths] if self.max_lengths else [most] * len(self.contexts)

    def stops(self, ids: Sequence[int]) -> bool:
        """Say whether the text of these ids contains a stop string."""
        if not self.settings.stop or self.to_text is None:
            return False
        text = self.to_text(ids)
        return any(stop in text for stop in self.settings.stop)

    def check_vocabulary(self, size: int) -> None:
        """Refuse ids that the model, whose vocabulary only its first scores tell, does not have."""
        asked = {
            "end_ids": [self.end_ids],
            "banned": self.settings.banned,
            "required": self.settings.required,
            "prefixes": self.prefixes or [],
        }
        outside = [
            f"{name}: {token}"
            for name, sequences in asked.items()
            for token in sorted({token for sequence in sequences for token in sequence})
            if not 0 <= token < size
        ]
        if outside:
            raise InputError(f"outside the vocabulary of {size:,} tokens: {'; '.join(outside)}")

    def _uneven(self) -> Iterator[str]:
        given = {
            "prefixes": self.prefixes,
            "max_lengths": self.max_lengths,
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
                yield f"sentence {number} has a max_length of {limit}: it must be 1 or more"

    def _impossible_prefixes(self) -> Iterator[str]:
        requirements = Requirements(self.settings.required)
        prefixes = self.prefixes or [()] * len(self.contexts)
        for number, (prefix, limit) in enumerate(zip(prefixes, self.limits, strict=True), start=1):
            if len(prefix) > limit:
                yield f"sentence {number} has a prefix of {len(prefix)} tokens and a max_length of {limit}"
                continue
            if set(prefix) & set(self.end_ids):
                yield f"the prefix of sentence {number} holds an end token"
            for banned in self.settings.banned:
                if contains(prefix, banned):
                    yield f"the prefix of sentence {number} contains banned {banned}"
            if prefix and self.stops(prefix):
                yield f"the prefix of sentence {number} already contains a stop string"
            outstanding = int(requirements.outstanding(torch.tensor([list(prefix)], dtype=torch.long)))
            if outstanding > limit - len(prefix):
                room = f"{limit - len(prefix)} of max_length {limit} are left"
                yield f"what is required needs {outstanding} tokens, but for sentence {number} {room}"
