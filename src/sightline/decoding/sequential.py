"""Sequential search, one row per text and one token per step: greedy search and sampling."""

import math
import random
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Hypothesis, length_penalty
from sightline.decoding.interfaces import (
    NextInputs,
    State,
    Step,
    StepNeeds,
    StepOutput,
    StepResult,
)
from sightline.decoding.logits_processors import (
    LogitsProcessors,
    best_tokens,
    keep_min_p,
    keep_top_p,
    log_probabilities,
    logits_not_finite,
    no_token_allowed,
)
from sightline.decoding.request import Request
from sightline.decoding.settings import DecodingSettings, FinishReason
from sightline.runtime import widest_float

ChooseTokens: TypeAlias = Callable[[Float[Tensor, "R V"], list[int]], Int[Tensor, "R"]]
"""Takes the processed scores and the numbers of the rows; returns the token of each."""


class SequentialSearch:
    """A search with one row per text; row `sentence * n_samples + i` is the i-th text of a sentence.

    `choose` takes the next token of each row: greedily, or by sampling. The search pauses after every step, so that the
    caller can stream the tokens and drop rows.

    The result of a row does not depend on the others; finished and dropped rows are removed from the batch and cost
    nothing more.
    """

    def __init__(self, request: Request, choose: ChooseTokens, *, n_samples: int = 1) -> None:
        self.request, self.choose, self.n_samples = request, choose, n_samples
        self.processors = LogitsProcessors(request)
        self.rows = list(range(len(request.contexts) * n_samples))  # the live ones
        limits = request.limits
        self.partials = [_Partial(limits[row // n_samples]) for row in self.rows]
        self.finished: dict[int, Hypothesis] = {}
        device = torch.device(request.device)
        self.sentences = torch.tensor([row // n_samples for row in self.rows], dtype=torch.long, device=device)  # R
        self.needs = StepNeeds(candidates=1 if choose is greedy_tokens and self.processors.is_noop else None)
        self.generated = self.sentences.new_empty(len(self.rows), 0)  # R T
        self.length = 0

    def begin(self) -> NextInputs:
        """Return the first inputs: the last context id of each sentence, `n_samples` times."""
        self.newest = self.sentences.new_tensor([context[-1] for context in self.request.contexts])[self.sentences]
        return NextInputs(self.sentences if self.n_samples > 1 else None, self.newest)

    def observe(self, output: StepOutput) -> StepResult:
        """Choose a token for each row."""
        tokens, token_log_probs, token_scores = self._choose(output)
        if -math.inf in token_scores:
            raise no_token_allowed(int(self.sentences[token_scores.index(-math.inf)]), self.length)
        self.length += 1
        finished = {}
        for row, token, log_prob, score in zip(self.rows, tokens, token_log_probs, token_scores, strict=True):
            if finish_reason := self.partials[row].add(token, log_prob, score, self.request):
                finished[row] = self.partials[row].finish(finish_reason, self.request.settings.length_penalty)
        self.finished.update(finished)
        return StepResult(self.rows, tokens, token_log_probs, finished)

    def _choose(self, output: StepOutput) -> tuple[list[int], list[float], list[float]]:
        """Return the token of each row, its log-probability, and its score."""
        best, logits = output.candidates, output.logits
        if best is not None:
            self.newest = best.ids[:, 0]
            log_probs: list[float] = best.log_probabilities[:, 0].tolist()
            if any(map(math.isnan, log_probs)):
                row = next(row for row, value in enumerate(log_probs) if math.isnan(value))
                raise logits_not_finite(int(self.sentences[row]), self.length)
            if self.length == 0:
                self.request.check_vocabulary(best.vocab_size)
            return self.newest.tolist(), log_probs, log_probs
        if logits is None:
            raise TypeError("this search needs the logits of all tokens, which the step did not give")
        if self.length == 0:
            self.request.check_vocabulary(logits.size(1))
        likely = log_probabilities(logits, sentences=self.sentences, length=self.length)
        scores = self.processors.process(logits, likely, generated=self.generated, sentences=self.sentences)
        self.newest = self.choose(scores, self.rows)
        picked = _pick(likely, self.newest)
        return self.newest.tolist(), picked, picked if scores is likely else _pick(scores, self.newest)

    def advance(self, dropped_rows: Collection[int] = ()) -> NextInputs:
        """Continue with the rows that are neither finished nor dropped by the caller."""
        if not self.processors.is_noop:
            self.generated = torch.cat([self.generated, self.newest[:, None]], dim=1)
        keep = [i for i, row in enumerate(self.rows) if row not in self.finished and row not in dropped_rows]
        if len(keep) == len(self.rows):
            return NextInputs(None, self.newest)
        index = torch.tensor(keep, dtype=torch.long, device=self.newest.device)
        self.rows = [self.rows[i] for i in keep]
        self.newest, self.sentences, self.generated = self.newest[index], self.sentences[index], self.generated[index]
        return NextInputs(index, self.newest)

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The complete texts of each sentence."""
        found: list[list[Hypothesis]] = [[] for _ in self.request.contexts]
        for row in sorted(self.finished):
            found[row // self.n_samples].append(self.finished[row])
        return found


@dataclass
class _Partial:
    """A hypothesis that is not complete yet."""

    limit: int
    ids: list[int] = field(default_factory=list)
    token_log_probabilities: list[float] = field(default_factory=list)
    total_score: float = 0.0

    def add(self, token: int, log_prob: float, score: float, request: Request) -> FinishReason | None:
        """Append one token; return why the text is complete with it, or None if it is not."""
        self.ids.append(token)
        self.token_log_probabilities.append(log_prob)
        self.total_score += score
        if token in request.end_ids:
            return "eos"
        if request.is_complete is not None and request.is_complete(self.ids):
            return "stop"
        return "length" if len(self.ids) >= self.limit else None

    def finish(self, finish_reason: FinishReason, alpha: float) -> Hypothesis:
        return Hypothesis(
            ids=tuple(self.ids),
            log_probability=sum(self.token_log_probabilities),
            score=self.total_score / length_penalty(len(self.ids), alpha),
            token_log_probabilities=tuple(self.token_log_probabilities),
            finish_reason=finish_reason,
        )


def _pick(values: Float[Tensor, "R V"], tokens: Int[Tensor, "R"]) -> list[float]:
    """Return the value of one token in each row."""
    picked: list[float] = values.gather(1, tokens[:, None])[:, 0].tolist()
    return picked


def run_steps(
    step: Step, state: State, search: SequentialSearch
) -> Generator[StepResult, Collection[int] | None, None]:
    """Yield the result of each step until all rows are finished; `send` the numbers of rows to drop unfinished."""
    inputs = search.begin()
    while not inputs.is_done:
        with torch.inference_mode():  # not between steps, where the caller's own code runs
            search.request.check_cancelled()
            state = state if inputs.rows is None else state.reorder(inputs.rows)
            output = step(inputs.newest, state, search.needs)
            result = search.observe(output)
        dropped_rows = yield result
        with torch.inference_mode():
            inputs, state = search.advance(dropped_rows or ()), output.state


def greedy_tokens(scores: Float[Tensor, "R V"], _rows: list[int]) -> Int[Tensor, "R"]:
    """Return the best token of each row, the lowest id in a tie."""
    return scores.argmax(dim=1)


class Sampler:
    """Draws one token for each row, from a random generator of its own.

    A row's generator depends on the seed and on the row's number among the samples of its sentence, not on the position
    of the sentence in the batch: alone or batched, a sentence gets the same texts. Sentences with the same seed
    therefore draw the same random numbers; give `seeds` where that matters. Without a seed every row differs.
    """

    def __init__(self, request: Request) -> None:
        self.settings = request.settings
        seeds = request.seeds or [request.settings.seed] * len(request.contexts)
        self.generators = [_make_generator(seed, number) for seed in seeds for number in range(request.settings.n_best)]

    def __call__(self, scores: Float[Tensor, "R V"], rows: list[int]) -> Int[Tensor, "R"]:
        """Return the token at which the cumulative probability exceeds a random number."""
        scores, tokens = filter_logits(scores, self.settings)
        cumulative = scores.softmax(dim=1).cumsum(dim=1, dtype=widest_float(scores.device))
        numbers = [self.generators[row].random() for row in rows]
        thresholds = torch.tensor(numbers, dtype=cumulative.dtype, device=scores.device)[:, None] * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, thresholds, right=True)
        drawn = drawn.clamp(max=scores.size(1) - 1)  # a row with no allowed token is NaN; the search rejects it
        return (drawn if tokens is None else tokens.gather(1, drawn))[:, 0]


def filter_logits(
    scores: Float[Tensor, "R V"], settings: DecodingSettings
) -> tuple[Float[Tensor, "R M"], Int[Tensor, "R M"] | None]:
    """Return the scores to sample from and their tokens (None: all, in order).

    Temperature comes first, then top-k, then top-p and min-p of the remaining tokens.
    """
    scores = scores / settings.temperature if settings.temperature != 1 else scores
    tokens = None
    if settings.top_k:
        scores, tokens = best_tokens(scores, settings.top_k)
    if settings.top_p < 1:
        scores = keep_top_p(scores, settings.top_p)
    if settings.min_p:
        scores = keep_min_p(scores, settings.min_p)
    return scores, tokens


def _make_generator(seed: int | None, number: int) -> random.Random:
    """Return the random generator of one sample; Python's costs less per number than torch's."""
    return random.Random(None if seed is None else f"{seed}/{number}")  # noqa: S311 - not for security
