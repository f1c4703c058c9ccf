"""What a search and a model know of each other: the step function, the search protocol, and the scored hypotheses.

A search never calls a model. So it can run alone (`run_search`), step by step (`stream`), or share every step with
other searches (`ContinuousBatch`). Shapes here and in the whole package: R rows, one for each live hypothesis;
V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.request import Request


@runtime_checkable
class State(Protocol):
    """A model's state after the tokens it has seen, one row per hypothesis.

    It (a cache, a hidden vector, a list of ids) is passed in and out and is opaque; a search only reorders its rows.
    """

    def reorder(self, rows: Int[Tensor, "R2"]) -> "State":
        """Return the state whose row i is the old row `rows[i]`; rows may be repeated, dropped or permuted.

        A search calls this only when something changes, never with the identity.
        """
        ...


@dataclass(frozen=True)
class StepOutput:
    """The logits of the next token, the state after the newest one, and the attention to the source, if any."""

    logits: Float[Tensor, "R V"]
    state: State
    attention: Float[Tensor, "R S"] | None = None


Step: TypeAlias = Callable[[Int[Tensor, "R"], State], StepOutput]
"""All that a search knows of a model: takes the newest token of each row and the state after all tokens before it."""

FinishReason: TypeAlias = Literal["eos", "length", "stop"]
"""Why a text ended: an end token, the length limit, or a stop string."""


@dataclass(frozen=True)
class Hypothesis:
    """The tokens generated for one sentence, with their log-probabilities and score.

    The log-probabilities are the model's own, before temperature and logits processors. The score ranks the hypotheses
    of one sentence: `log_probability` under the length penalty, plus the coverage penalty. With a repetition penalty,
    the score (and only the score) uses the penalized probabilities instead.
    """

    ids: tuple[int, ...]
    """All generated tokens: a forced prefix first, the end token last if `finish_reason` is "eos"."""
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    """One for each of `ids`, including the end token; `log_probability` is their sum."""
    finish_reason: FinishReason

    @property
    def content(self) -> tuple[int, ...]:
        """The tokens without the end token. A stop string is included, up to the token that completed it."""
        return self.ids[:-1] if self.finish_reason == "eos" else self.ids


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^α, the divisor of a log-probability (Wu et al. 2016, eq. 14)."""
    return float(((5 + length) / 6) ** alpha)


def coverage_penalty(
    attention: Float[Tensor, "R S"], source_mask: Bool[Tensor, "R S"] | None, beta: float
) -> Float[Tensor, "R"]:
    """Return β Σ log min(a, 1) over the total attention a to each source position (Wu et al. 2016, eq. 14).

    It is never positive. A position without any attention counts as the smallest positive number.
    """
    logs = attention.clamp(min=torch.finfo(torch.float32).tiny, max=1).log()
    if source_mask is not None:
        logs = logs.masked_fill(~source_mask, 0)
    # Not `sum`, whose grouping of terms depends on their number: padding would change the last digit.
    return beta * logs.cumsum(dim=1)[:, -1]


@dataclass(frozen=True)
class NextInputs:
    """The inputs of the next step: rows of the state, in this order, each with its newest token; empty when done."""

    rows: Int[Tensor, "R2"] | None
    """None: all rows, in their current order."""
    newest: Int[Tensor, "R2"]

    @property
    def is_done(self) -> bool:
        """Whether the search is done."""
        return not len(self.newest)


@dataclass(frozen=True)
class StepResult:
    """The result of one step: the rows that were alive, the token of each, and the hypotheses it completed."""

    rows: list[int]
    tokens: list[int]
    log_probabilities: list[float]
    finished: dict[int, Hypothesis]


@runtime_checkable
class Search(Protocol):
    """One kind of decoding, running on the sentences of one request.

    It says which rows continue with which tokens, and observes the logits that follow.
    """

    request: Request

    def begin(self) -> NextInputs:
        """Return the first inputs; the state has one row per sentence."""
        ...

    def observe(self, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None = None) -> StepResult | None:
        """Process the logits of the last inputs; return the chosen tokens, or None if none are final yet."""
        ...

    def advance(self) -> NextInputs:
        """Return the next inputs; finished rows are dropped."""
        ...

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The results of each sentence so far, best first (samples: in the order drawn)."""
        ...


def run_search(search: Search, step: Step, state: State) -> list[list[Hypothesis]]:
    """Run a search to its end and return its results."""
    inputs = search.begin()
    while not inputs.is_done:
        state = state if inputs.rows is None else state.reorder(inputs.rows)
        output = step(inputs.newest, state)
        search.observe(output.logits, output.attention)
        inputs, state = search.advance(), output.state
    return search.hypotheses


def is_identity(rows: Int[Tensor, "R2"], count: int) -> bool:
    """Tell whether these are all of `count` rows, in order."""
    return len(rows) == count and bool((rows.diff(prepend=rows.new_full((1,), -1)) == 1).all())
