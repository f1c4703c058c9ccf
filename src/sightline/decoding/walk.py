"""One row per text, one token per step: the loop that greedy search and sampling share.

It rests after every step, so that whoever drives it can pass tokens on while they come, and can take rows out. How a
token is chosen it is told.
"""

import math
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Finish, Hypothesis
from sightline.decoding.move import Move, Stride
from sightline.decoding.request import Request
from sightline.decoding.rules import Rules
from sightline.decoding.scores import length_penalty, log_probabilities
from sightline.decoding.step import State, Step
from sightline.errors import InputError

Choose: TypeAlias = Callable[[Float[Tensor, "R V"], list[int]], Int[Tensor, "R"]]
"""Takes the preference and the numbers of the rows, and returns the token of each."""


@dataclass
class _Draft:
    """A text in the making."""

    limit: int
    ids: list[int] = field(default_factory=list)
    token_log_probabilities: list[float] = field(default_factory=list)
    ranking: float = 0.0

    def add(self, token: int, value: float, rank: float, request: Request) -> Finish | None:
        """Take one more token, and say why the text is complete with it, if it is."""
        self.ids.append(token)
        self.token_log_probabilities.append(value)
        self.ranking += rank
        if token in request.end_ids:
            return "end"
        if request.settings.stop and request.stops(self.ids):
            return "stop"
        return "length" if len(self.ids) >= self.limit else None

    def hypothesis(self, finish: Finish, alpha: float) -> Hypothesis:
        return Hypothesis(
            ids=tuple(self.ids),
            log_probability=sum(self.token_log_probabilities),
            score=self.ranking / length_penalty(len(self.ids), alpha),
            token_log_probabilities=tuple(self.token_log_probabilities),
            finish=finish,
        )


class Walk:
    """One row per text; row `sentence * copies + i` is the i-th text of a sentence.

    What a row gets does not depend on the others: those that are finished or sent away leave the batch, and nothing is
    computed for them any more.
    """

    def __init__(self, request: Request, choose: Choose, *, copies: int = 1) -> None:
        self.request, self.choose, self.copies = request, choose, copies
        self.rules = Rules(request)
        self.rows = list(range(len(request.contexts) * copies))  # those alive
        limits = request.limits
        self.drafts = [_Draft(limits[row // copies]) for row in self.rows]
        self.done: dict[int, Hypothesis] = {}
        device = torch.device(request.device)
        self.sentences = torch.tensor([row // copies for row in self.rows], dtype=torch.long, device=device)  # R
        self.generated = self.sentences.new_empty(len(self.rows), 0)  # R T
        self.length = 0

    def begin(self) -> Move:
        """Return the first move: every sentence as often as texts are wanted of it."""
        self.newest = self.sentences.new_tensor([context[-1] for context in self.request.contexts])[self.sentences]
        return Move(self.sentences if self.copies > 1 else None, self.newest)

    def take(self, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None = None) -> Stride:  # noqa: ARG002
        """Choose a token for each row."""
        if self.length == 0:
            self.request.check_vocabulary(logits.size(1))
        likely = log_probabilities(logits, sentences=self.sentences, length=self.length)
        preference = self.rules.preference(logits, likely, generated=self.generated, sentences=self.sentences)
        self.newest = self.choose(preference, self.rows)
        tokens, values = self.newest.tolist(), _at(likely, self.newest)
        ranks = values if preference is likely else _at(preference, self.newest)
        if -math.inf in ranks:
            raise dead_end(int(self.sentences[ranks.index(-math.inf)]), self.length)
        self.length += 1
        finished = {}
        for row, token, value, rank in zip(self.rows, tokens, values, ranks, strict=True):
            if finish := self.drafts[row].add(token, value, rank, self.request):
                finished[row] = self.drafts[row].hypothesis(finish, self.request.settings.length_penalty)
        self.done.update(finished)
        return Stride(self.rows, tokens, values, finished)

    def go_on(self, leaving: Collection[int] = ()) -> Move:
        """Go on with the rows that are neither finished nor leaving."""
        if not self.rules.plain:
            self.generated = torch.cat([self.generated, self.newest[:, None]], dim=1)
        keep = [i for i, row in enumerate(self.rows) if row not in self.done and row not in leaving]
        if len(keep) == len(self.rows):
            return Move(None, self.newest)
        index = torch.tensor(keep, dtype=torch.long, device=self.newest.device)
        self.rows = [self.rows[i] for i in keep]
        self.newest, self.sentences, self.generated = self.newest[index], self.sentences[index], self.generated[index]
        return Move(index, self.newest)

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The texts of each sentence that are complete."""
        found: list[list[Hypothesis]] = [[] for _ in self.request.contexts]
        for row in sorted(self.done):
            found[row // self.copies].append(self.done[row])
        return found


def walk(step: Step, state: State, search: Walk) -> Generator[Stride, Collection[int] | None, None]:
    """Yield after each step, until all rows are finished; `send` the numbers of rows that shall leave unfinished."""
    move = search.begin()
    while not move.is_last:
        state = state if move.rows is None else state.reorder(move.rows)
        output = step(move.newest, state)
        leaving = yield search.take(output.logits)
        move, state = search.go_on(leaving or ()), output.state


def dead_end(sentence: int, length: int) -> InputError:
    """Return the error for a sentence whose rules leave nothing to choose."""
    return InputError(
        f"sentence {sentence + 1}: no token is allowed after {length} tokens; "
        "loosen the prefix, banned, required, no_repeat_ngram or min_length"
    )


def _at(values: Float[Tensor, "R V"], tokens: Int[Tensor, "R"]) -> list[float]:
    """Return the value of one token in each row."""
    picked: list[float] = values.gather(1, tokens[:, None])[:, 0].tolist()
    return picked
