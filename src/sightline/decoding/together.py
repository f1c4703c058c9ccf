"""Many searches in one running batch: they join before any step and leave after any (continuous batching).

A step of a model costs little more for many rows than for one. So searches that were asked for at different times, of
different kinds and settings, take their steps together; each gets what it would have got alone, and one that cannot go
on takes nobody with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.move import Move, Search, Stride, unchanged
from sightline.decoding.step import State, Step
from sightline.errors import SightlineError


@runtime_checkable
class SharedState(State, Protocol):
    """A state that can take in the rows of another, whose lengths may differ."""

    def join(self, other: Any) -> "SharedState":
        """Return the state with the rows of another of its kind behind its own; neither may be used any more."""
        ...


@dataclass(frozen=True)
class Advance:
    """What a step brought one of the searches."""

    search: Search
    stride: Stride | None
    """What became certain; None for a beam, which may change its mind until it is done."""
    is_done: bool
    error: SightlineError | None = None
    """Why this search cannot go on."""


@dataclass(frozen=True)
class _Member:
    search: Search
    newest: Int[Tensor, "R"]


class Together:
    """The searches that are under way, and the one state in which each of them has its rows."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.members: list[_Member] = []
        self.state: SharedState | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the next step."""
        return sum(len(member.newest) for member in self.members)

    def join(self, searches: Sequence[Search], state: SharedState) -> None:
        """Let searches in; the rows of their state are all their sentences, one search after the other."""
        moves = [search.begin() for search in searches]
        counts = [len(search.request.contexts) for search in searches]
        state = moved(state, moves, counts)
        self.state = state if self.state is None else self.state.join(state)
        self.members += [_Member(search, move.newest) for search, move in zip(searches, moves, strict=True)]

    def leave(self, searches: Collection[Search]) -> None:
        """Let searches go that nobody waits for any more."""
        gone = {id(search) for search in searches}
        self._go_on([NOTHING if id(m.search) in gone else Move(None, m.newest) for m in self.members])

    def advance(self) -> list[Advance]:
        """Take one step with everyone, and tell what it brought each; those that are done have left."""
        if self.state is None:
            return []
        output = self.step(torch.cat([member.newest for member in self.members]), self.state)
        self.state = output.state  # type: ignore[assignment]  # a shared one goes in, and comes out
        advances, moves, start = [], [], 0
        for member in self.members:
            rows = slice(start, start + len(member.newest))
            attention = None if output.attention is None else own(output.attention[rows], member.search)
            advance, move = told(member.search, output.logits[rows], attention)
            advances.append(advance)
            moves.append(move)
            start = rows.stop
        self._go_on(moves)
        return advances

    def _go_on(self, moves: Sequence[Move]) -> None:
        """Let every member make its move; who has none left is out."""
        if self.state is None:
            return
        before = self.members
        self.members = [
            _Member(m.search, move.newest) for m, move in zip(before, moves, strict=True) if not move.is_last
        ]
        self.state = moved(self.state, moves, [len(m.newest) for m in before]) if self.members else None


NOTHING = Move(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))


def told(search: Search, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None) -> tuple[Advance, Move]:
    """Tell one search what its rows got; an error of its own ends it and no other."""
    try:
        stride = search.take(logits, attention)
        move = search.go_on()
    except SightlineError as error:
        return Advance(search, None, is_done=True, error=error), NOTHING
    return Advance(search, stride, is_done=move.is_last), move


def own(attention: Float[Tensor, "R S"], search: Search) -> Float[Tensor, "R S2"]:
    """Return where rows looked in their own sources, without the room that longer ones need."""
    mask = search.request.source_mask
    return attention if mask is None else attention[:, : mask.size(1)]


def moved(state: SharedState, moves: Sequence[Move], counts: Sequence[int]) -> SharedState:
    """Return a state after a move of each search, which had so many of its rows."""
    if all(move.rows is None for move in moves):
        return state
    rows, start = [], 0
    for move, count in zip(moves, counts, strict=True):
        mine = torch.arange(count) if move.rows is None else move.rows.cpu()
        rows.append(mine + start)
        start += count
    wanted = torch.cat(rows)
    return state if unchanged(wanted, start) else state.reorder(wanted.to(moves[0].newest.device))  # type: ignore[return-value]
