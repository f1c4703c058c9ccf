"""Continuous batching: many searches in one running batch, joining before any step and leaving after any.

A model step costs little more for many rows than for one. So searches that arrive at different times, with different
kinds and settings, share every step; each gets the same result as alone, and one that fails ends no other.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from sightline.decoding.interfaces import NextInputs, Search, State, Step, StepOutput, StepResult, is_identity
from sightline.errors import SightlineError


@runtime_checkable
class SharedState(State, Protocol):
    """A state that can append the rows of another, whose lengths may differ."""

    def join(self, other: Any) -> "SharedState":
        """Return the state with the rows of another state appended; neither may be used again."""
        ...


@dataclass(frozen=True)
class SearchUpdate:
    """The result of one step for one of the searches."""

    search: Search
    result: StepResult | None
    """The chosen tokens; None for a beam search, whose tokens are not final until it is done."""
    is_done: bool
    error: SightlineError | None = None
    """Why this search failed."""


@dataclass(frozen=True)
class _Member:
    search: Search
    newest: Int[Tensor, "R"]


class ContinuousBatch:
    """The running searches, and the one state that holds the rows of all of them."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.members: list[_Member] = []
        self.state: SharedState | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of the next step."""
        return sum(len(member.newest) for member in self.members)

    @torch.inference_mode()
    def add(self, searches: Sequence[Search], state: SharedState) -> None:
        """Add searches; the rows of their state are all their sentences, one search after the other."""
        all_inputs = [search.begin() for search in searches]
        counts = [len(search.request.contexts) for search in searches]
        state = reorder_state(state, all_inputs, counts)
        self.state = state if self.state is None else self.state.join(state)
        self.members += [_Member(search, inputs.newest) for search, inputs in zip(searches, all_inputs, strict=True)]

    @torch.inference_mode()
    def remove(self, searches: Collection[Search]) -> None:
        """Remove searches whose results are no longer needed; those already gone are ignored."""
        removed = {id(search) for search in searches}
        self._apply([NO_INPUTS if id(m.search) in removed else NextInputs(None, m.newest) for m in self.members])

    @torch.inference_mode()
    def advance(self) -> list[SearchUpdate]:
        """Run one step of all searches and return the update of each; those that are done are removed."""
        if self.state is None:
            return []
        needs = reduce(or_, (member.search.needs for member in self.members))
        output = self.step(torch.cat([member.newest for member in self.members]), self.state, needs)
        self.state = output.state  # type: ignore[assignment]  # a shared state goes in, so one comes out
        updates, all_inputs, start = [], [], 0
        for member in self.members:
            rows = slice(start, start + len(member.newest))
            update, inputs = advance_search(member.search, trim_attention(output.select(rows), member.search))
            updates.append(update)
            all_inputs.append(inputs)
            start = rows.stop
        self._apply(all_inputs)
        return updates

    def _apply(self, all_inputs: Sequence[NextInputs]) -> None:
        """Set the next inputs of every member and reorder the state; drop members without inputs."""
        if self.state is None:
            return
        before = self.members
        self.members = [
            _Member(m.search, inputs.newest) for m, inputs in zip(before, all_inputs, strict=True) if not inputs.is_done
        ]
        counts = [len(m.newest) for m in before]
        self.state = reorder_state(self.state, all_inputs, counts) if self.members else None


NO_INPUTS = NextInputs(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))


def advance_search(search: Search, output: StepOutput) -> tuple[SearchUpdate, NextInputs]:
    """Pass one search the output of its rows and advance it; its own error ends it and no other."""
    try:
        search.request.check_cancelled()
        result = search.observe(output)
        inputs = search.advance()
    except SightlineError as error:
        return SearchUpdate(search, None, is_done=True, error=error), NO_INPUTS
    return SearchUpdate(search, result, is_done=inputs.is_done), inputs


def trim_attention(output: StepOutput, search: Search) -> StepOutput:
    """Return the output with attention to the search's own sources, without the padding that longer ones need."""
    mask = search.request.source_mask
    if mask is None or output.attention is None:
        return output
    return replace(output, attention=output.attention[:, : mask.size(1)])


def reorder_state(state: SharedState, all_inputs: Sequence[NextInputs], counts: Sequence[int]) -> SharedState:
    """Reorder a state by the next inputs of each search, which had `counts` rows of it."""
    if all(inputs.rows is None for inputs in all_inputs):
        return state
    rows, start = [], 0
    for inputs, count in zip(all_inputs, counts, strict=True):
        kept = torch.arange(count) if inputs.rows is None else inputs.rows.cpu()
        rows.append(kept + start)
        start += count
    wanted = torch.cat(rows)
    device = next((inputs.newest.device for inputs in all_inputs if not inputs.is_done), wanted.device)
    return state if is_identity(wanted, start) else state.reorder(wanted.to(device))  # type: ignore[return-value]
