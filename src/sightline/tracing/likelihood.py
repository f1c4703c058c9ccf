"""Scores of a whole vocabulary as the few numbers one looks at, without ever holding the scores of many rows.

Probabilities are the model's own: the softmax of its scores, before every rule of a search.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.decoding.filters import best_tokens
from sightline.tracing.passes import Pass
from sightline.tracing.step import Candidate, Step

CHUNK_BYTES = 64_000_000

Name = Callable[[int], str]
"""Returns a token, or a class, as a person reads it."""


@dataclass(frozen=True)
class Choice:
    """What was decided at a row; None: whatever is likeliest there."""

    row: int
    id: int | None = None


def scores(
    work: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int]
) -> Iterator[tuple[slice, Float[Tensor, "copies n V"]]]:
    """Yield the scores of everything at some rows, a few rows at a time, and which of the rows they are."""
    if work.readable == (0,) and work.n_rows > 1:  # one decision for the whole text
        yield slice(0, len(rows)), work.logits(hidden).float().expand(-1, len(rows), -1)
        return
    size = rows_at_once(work, len(hidden)) if rows else 1
    for start in range(0, len(rows), size):
        some = hidden[:, list(rows[start : start + size])]
        yield slice(start, start + some.size(1)), work.logits(some).float()


def log_likelihoods(
    work: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int]
) -> Iterator[tuple[slice, Float[Tensor, "copies n V"]]]:
    """Yield the log-probabilities of everything at some rows, as `scores` does."""
    for part, found in scores(work, hidden, rows):
        yield part, found.log_softmax(dim=-1)


def rows_at_once(work: Pass, copies: int) -> int:
    """Return how many rows may have their scores in memory together."""
    width = work.points()["logits"][1]
    return max(1, CHUNK_BYTES // (4 * width * copies))


def steps_of(
    work: Pass,
    hidden: Float[Tensor, "copies T E"],
    choices: Sequence[Choice],
    *,
    k: int,
    name: Name,
    forbidden: Sequence[int] = (),
) -> tuple[Step, ...]:
    """Return the decisions with their candidates; `forbidden` ids are no candidates."""
    steps: list[Step] = []
    for part, likely in log_likelihoods(work, hidden, [choice.row for choice in choices]):
        allowed = likely[0].clone()
        allowed[:, list(forbidden)] = -torch.inf
        values, ids = best_tokens(allowed, k)
        best = ids.tolist()
        for row, choice in enumerate(choices[part]):
            there = int((values[row] > -torch.inf).sum())
            steps.append(step_of(choice, allowed[row], best[row][: max(1, there)], name=name))
    return tuple(steps)


def step_of(choice: Choice, likely: Float[Tensor, "V"], best: list[int], *, name: Name) -> Step:
    """Return one decision: the likeliest, and what was chosen if it is not among them."""
    chosen = best[0] if choice.id is None else choice.id
    ids = best if chosen in best else [*best, chosen]
    probabilities: list[float] = likely[ids].exp().clamp(max=1.0).tolist()
    return Step(
        row=choice.row,
        candidates=tuple(Candidate(id_, name(id_), value) for id_, value in zip(ids, probabilities, strict=True)),
        chosen=ids.index(chosen),
        rank=int((likely > likely[chosen]).sum()),
        log_probability=float(likely[chosen]),
    )


def chosen_log_probabilities(
    work: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int], ids: Sequence[int]
) -> Float[Tensor, "copies steps"]:
    """Return the log-probability of what was chosen at each row, in every copy."""
    found = [hidden.new_zeros(len(hidden), 0).float()]
    wanted = torch.tensor(list(ids), dtype=torch.long, device=hidden.device)
    for part, several in scores(work, hidden, rows):
        index = wanted[part].expand(len(several), -1)[:, :, None]
        found.append(several.gather(2, index)[:, :, 0] - several.logsumexp(dim=2))
    return torch.cat(found, dim=1)
