"""What a search and a model know of each other: the step function, the search protocol, and the scored hypotheses.

A search never calls a model. So it can run alone (`run_search`), step by step (`stream`), or share every step with
other searches (`ContinuousBatch`). Shapes here and in the whole package: R rows, one for each live hypothesis;
V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.logits_processors import best_tokens
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
class StepNeeds:
    """What a search needs of a step besides the state."""

    candidates: int | None = None
    """The best few tokens of each row suffice, this many; None: the logits of all tokens are needed."""
    attention: bool = False
    """The attention to the source is needed."""

    def __or__(self, other: "StepNeeds") -> "StepNeeds":
        """Return what serves both of two searches."""
        counts = (self.candidates, other.candidates)
        few = None if None in counts else max(count for count in counts if count is not None)
        return StepNeeds(few, self.attention or other.attention)


@dataclass(frozen=True)
class TokenCandidates:
    """The likeliest tokens of each row, best first, lowest id first in a tie."""

    ids: Int[Tensor, "R k"]
    log_probabilities: Float[Tensor, "R k"]
    """The model's own, of a softmax over the whole vocabulary."""
    vocab_size: int

    @classmethod
    def of(cls, logits: Float[Tensor, "R V"], count: int) -> "TokenCandidates":
        """Return the best `count` tokens; a row whose logits are not finite has NaN for log-probabilities."""
        log_probs = logits.float().log_softmax(dim=1)
        if count == 1:
            ids = log_probs.argmax(dim=1, keepdim=True)
            return cls(ids, log_probs.gather(1, ids), logits.size(1))
        values, ids = best_tokens(log_probs, count)
        return cls(ids, values, logits.size(1))

    def select(self, rows: slice) -> "TokenCandidates":
        """Return the candidates of some rows."""
        return TokenCandidates(self.ids[rows], self.log_probabilities[rows], self.vocab_size)


@dataclass(frozen=True)
class StepOutput:
    """What follows the newest tokens: logits or, where a search needs no more, candidates; and the state after them."""

    logits: Float[Tensor, "R V"] | None
    state: State
    attention: Float[Tensor, "R S"] | None = None
    """The attention of each row to the source, if it was needed and there is one."""
    candidates: TokenCandidates | None = None

    def select(self, rows: slice) -> "StepOutput":
        """Return the output of some rows, with the state of all."""
        return StepOutput(
            None if self.logits is None else self.logits[rows],
            self.state,
            None if self.attention is None else self.attention[rows],
            None if self.candidates is None else self.candidates.select(rows),
        )


Step: TypeAlias = Callable[[Int[Tensor, "R"], State, StepNeeds], StepOutput]
"""All that a search knows of a model: takes the newest token of each row, the state after all tokens before it, and
what is needed. It may always give logits, and may give candidates instead where `StepNeeds.candidates` allows."""


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

    It says which rows continue with which tokens, and observes what follows.
    """

    request: Request
    needs: StepNeeds
    """What each step must give it."""

    def begin(self) -> NextInputs:
        """Return the first inputs; the state has one row per sentence."""
        ...

    def observe(self, output: StepOutput) -> StepResult | None:
        """Process the output for the last inputs; return the chosen tokens, or None if none are final yet."""
        ...

    def advance(self) -> NextInputs:
        """Return the next inputs; finished rows are dropped."""
        ...

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The results of each sentence so far, best first (samples: in the order drawn)."""
        ...


@torch.inference_mode()
def run_search(search: Search, step: Step, state: State) -> list[list[Hypothesis]]:
    """Run a search to its end and return its results; raise `SearchCancelledError` if it is cancelled."""
    inputs = search.begin()
    while not inputs.is_done:
        search.request.check_cancelled()
        state = state if inputs.rows is None else state.reorder(inputs.rows)
        output = step(inputs.newest, state, search.needs)
        search.observe(output)
        inputs, state = search.advance(), output.state
    return search.hypotheses


def is_identity(rows: Int[Tensor, "R2"], count: int) -> bool:
    """Tell whether these are all of `count` rows, in order."""
    return len(rows) == count and bool((rows.diff(prepend=rows.new_full((1,), -1)) == 1).all())
