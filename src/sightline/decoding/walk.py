"""One row per text, one token per step: the loop that greedy search and sampling share.

It is a generator that rests after every step, so that whoever drives it can pass tokens on while they come, and can
take rows out. How a token is chosen it is told.
"""

import math
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Finish, Hypothesis
from sightline.decoding.request import Request
from sightline.decoding.rules import Rules
from sightline.decoding.scores import length_penalty, log_probabilities
from sightline.decoding.step import State, Step
from sightline.errors import InputError

Choose: TypeAlias = Callable[[Float[Tensor, "R V"], list[int]], Int[Tensor, "R"]]
"""Takes the preference and the numbers of the rows, and returns the token of each."""


@dataclass(frozen=True)
class Stride:
    """What one step did: the rows that were alive, the token each got, and the texts that are complete with it."""

    rows: list[int]
    tokens: list[int]
    log_probabilities: list[float]
    finished: dict[int, Hypothesis]


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


def walk(
    step: Step, state: State, request: Request, choose: Choose, *, copies: int = 1
) -> Generator[Stride, Collection[int] | None, None]:
    """Yield after each step, until all rows are finished; `send` the numbers of rows that shall leave unfinished.

    Row `sentence * copies + i` is the i-th text of a sentence. What a row gets does not depend on the others: those
    that are finished or sent away leave the batch, and nothing is computed for them any more.
    """
    device = torch.device(request.device)
    rows = list(range(len(request.contexts) * copies))
    sentences = torch.tensor([row // copies for row in rows], dtype=torch.long, device=device)
    newest = torch.tensor([context[-1] for context in request.contexts], dtype=torch.long, device=device)[sentences]
    if copies > 1 and rows:
        state = state.reorder(sentences)
    generated = sentences.new_empty(len(rows), 0)
    limits = request.limits
    drafts = [_Draft(limits[row // copies]) for row in rows]
    rules = Rules(request)
    length = 0
    while rows:
        output = step(newest, state)
        if length == 0:
            request.check_vocabulary(output.logits.size(1))
        likely = log_probabilities(output.logits, sentences=sentences, length=length)
        preference = rules.preference(output.logits, likely, generated=generated, sentences=sentences)
        newest = choose(preference, rows)
        tokens, values = newest.tolist(), _at(likely, newest)
        ranks = values if preference is likely else _at(preference, newest)
        if -math.inf in ranks:
            raise dead_end(int(sentences[ranks.index(-math.inf)]), length)
        length += 1
        finished = {}
        for row, token, value, rank in zip(rows, tokens, values, ranks, strict=True):
            if finish := drafts[row].add(token, value, rank, request):
                finished[row] = drafts[row].hypothesis(finish, request.settings.length_penalty)
        leaving = (yield Stride(rows, tokens, values, finished)) or ()
        if not rules.plain:
            generated = torch.cat([generated, newest[:, None]], dim=1)
        state = output.state
        keep = [i for i, row in enumerate(rows) if row not in finished and row not in leaving]
        if keep and len(keep) < len(rows):
            index = torch.tensor(keep, device=device)
            state, newest = state.reorder(index), newest[index]
            sentences, generated = sentences[index], generated[index]
        rows = [rows[i] for i in keep]


def texts(strides: Generator[Stride, Collection[int] | None, None]) -> list[Hypothesis]:
    """Walk to the end and return the text of every row."""
    finished: dict[int, Hypothesis] = {}
    for stride in strides:
        finished.update(stride.finished)
    return [finished[row] for row in sorted(finished)]


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
