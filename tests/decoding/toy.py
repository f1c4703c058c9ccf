"""A toy model for tests: random logits that depend on the whole history, drawn on first use."""

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding import DecodingSettings, StepNeeds, StepOutput

END = 0
START = 1


@dataclass(frozen=True)
class Histories:
    """The state: all ids each row was fed, its source first."""

    rows: tuple[tuple[int, ...], ...]

    def reorder(self, rows: Int[Tensor, "R2"]) -> "Histories":
        assert rows.tolist() != list(range(len(self.rows))), "reorder was called although nothing changes"
        return Histories(tuple(self.rows[row] for row in rows.tolist()))

    def join(self, other: "Histories") -> "Histories":
        return Histories((*self.rows, *other.rows))


class Toy:
    """A step function that counts its rows; `sharpness` scales the logits, `grain` rounds them to make ties."""

    def __init__(
        self, vocabulary: int = 6, *, seed: int = 0, sharpness: float = 1.0, grain: float = 0.0, sources: int = 0
    ) -> None:
        self.vocabulary, self.seed, self.sharpness, self.grain = vocabulary, seed, sharpness, grain
        self.sources = sources
        self.rows_of_calls: list[int] = []
        self.states: list[Histories] = []
        self.logits_after = functools.cache(self._logits_after)

    def __call__(self, newest: Int[Tensor, "R"], state: Histories, needs: StepNeeds) -> StepOutput:
        assert len(newest) == len(state.rows)
        self.rows_of_calls.append(len(newest))
        seen = Histories(tuple((*row, token) for row, token in zip(state.rows, newest.tolist(), strict=True)))
        self.states.append(seen)
        logits = torch.stack([self.logits_after(row) for row in seen.rows])
        attention = torch.stack([self.attention_after(row) for row in seen.rows]) if self.sources else None
        return StepOutput(logits, seen, attention)

    def start(self, sources: Sequence[int], contexts: Sequence[Sequence[int]] | None = None) -> Histories:
        """Return the state that knows each row's source and has seen all of its context but the last id."""
        before = [context[:-1] for context in contexts] if contexts else [()] * len(sources)
        return Histories(tuple((source, *seen) for source, seen in zip(sources, before, strict=True)))

    def attention_after(self, row: tuple[int, ...]) -> Float[Tensor, "S"]:
        """Attend to the tokens of the source only; the rest is padding."""
        draw = random.Random(f"{self.seed} attention {row}")  # noqa: S311
        scores = torch.tensor([draw.gauss(0, 2) for _ in range(self.sources)])
        return scores.masked_fill(~self.source_mask([row[0]])[0], -math.inf).softmax(0)

    def source_mask(self, sources: Sequence[int]) -> Tensor:
        """Source number i has 1 + i % S tokens."""
        return torch.arange(self.sources) < torch.tensor([[1 + source % self.sources] for source in sources])

    def _logits_after(self, row: tuple[int, ...]) -> Float[Tensor, "V"]:
        draw = random.Random(f"{self.seed} {row}")  # noqa: S311
        values = torch.tensor([draw.gauss(0, self.sharpness) for _ in range(self.vocabulary)])
        return (values / self.grain).round() * self.grain if self.grain else values


def contains_any(stops: Sequence[str], to_text: Callable[[Sequence[int]], str]) -> Callable[[Sequence[int]], bool]:
    """Return the predicate that a text is complete once it contains one of these."""
    return lambda ids: any(stop in to_text(ids) for stop in stops)


def every_text(toy: Toy, source: int, *, limit: int, end_ids: Sequence[int] = (END,)) -> Iterator[tuple[int, ...]]:
    """Yield all texts that end with an end token within the limit, or reach it without one."""
    others = [i for i in range(toy.vocabulary) if i not in end_ids]
    for length in range(1, limit + 1):
        for prefix in itertools.product(others, repeat=length - 1):
            yield from ((*prefix, end) for end in end_ids)
    yield from itertools.product(others, repeat=limit)


def score_of(toy: Toy, source: int, ids: tuple[int, ...], settings: DecodingSettings) -> float:
    """Return the score of a text by the formulas of Wu et al. (2016)."""
    rows = [(source, START, *ids[:length]) for length in range(len(ids))]
    total = sum(toy.logits_after(row).log_softmax(0)[token].item() for row, token in zip(rows, ids, strict=True))
    coverage = 0.0
    if settings.coverage_penalty:
        attention = torch.stack([toy.attention_after(row) for row in rows]).double().sum(0)[: 1 + source % toy.sources]
        coverage = settings.coverage_penalty * attention.clamp(max=1).log().sum().item()
    return total / ((5 + len(ids)) / 6) ** settings.length_penalty + coverage


def best_texts(
    toy: Toy,
    source: int,
    settings: DecodingSettings,
    *,
    count: int,
    allowed: Callable[[tuple[int, ...]], bool] = lambda ids: True,
    end_ids: Sequence[int] = (END,),
) -> list[tuple[int, ...]]:
    """Return the best texts by scoring every one."""
    texts = [ids for ids in every_text(toy, source, limit=settings.max_new_tokens, end_ids=end_ids) if allowed(ids)]
    return sorted(texts, key=lambda ids: -score_of(toy, source, ids, settings))[:count]
