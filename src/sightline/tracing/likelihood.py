"""The steps of a trace: candidates and log-probabilities of every decision of a model.

Probabilities are the model's own: the softmax of its logits, before temperature and logits processors. Logits are
computed a few rows at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.decoding.logits_processors import best_tokens
from sightline.model.logits import iter_logits
from sightline.tracing.passes import Pass


@dataclass(frozen=True)
class Candidate:
    """A token or class that could have been chosen."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Step:
    """A generated token, a filled mask, or a predicted class."""

    row: int
    """The row of the tower's arrays that made this choice: the decoder's, or the encoder's in a Bert."""
    candidates: tuple[Candidate, ...]
    """Likeliest first; the chosen one comes last if it is not among the likeliest."""
    chosen: int
    """Index of the chosen candidate."""
    rank: int
    """Rank of the chosen candidate in the whole vocabulary: 0 for the likeliest."""
    log_probability: float
    """Of the chosen candidate."""

    @property
    def choice(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]


@dataclass(frozen=True)
class Choice:
    """The id chosen at a row; None: the likeliest one."""

    row: int
    id: int | None = None


IdToText = Callable[[int], str]
"""Returns the readable text of a token or a class."""


def build_steps(
    forward_pass: Pass,
    hidden: Float[Tensor, "copies T E"],
    choices: Sequence[Choice],
    *,
    k: int,
    name: IdToText,
    forbidden: Sequence[int] = (),
) -> tuple[Step, ...]:
    """Return the steps with their candidates; `forbidden` ids are no candidates."""
    steps: list[Step] = []
    for part, likely in iter_log_probs(forward_pass, hidden, [choice.row for choice in choices]):
        allowed = likely[0].clone()
        allowed[:, list(forbidden)] = -torch.inf
        values, ids = best_tokens(allowed, k)
        best = ids.tolist()
        for row, choice in enumerate(choices[part]):
            n_allowed = int((values[row] > -torch.inf).sum())
            steps.append(build_step(choice, allowed[row], best[row][: max(1, n_allowed)], name=name))
    return tuple(steps)


def build_step(choice: Choice, likely: Float[Tensor, "V"], best: list[int], *, name: IdToText) -> Step:
    """Return one step: the likeliest candidates, and the chosen one if it is not among them."""
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


def gather_log_probs(
    forward_pass: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int], ids: Sequence[int]
) -> Float[Tensor, "copies steps"]:
    """Return the log-probability of the chosen id at each row, in every copy of the batch."""
    found = [hidden.new_zeros(len(hidden), 0).float()]
    wanted = torch.tensor(list(ids), dtype=torch.long, device=hidden.device)
    for part, several in iter_row_logits(forward_pass, hidden, rows):
        index = wanted[part].expand(len(several), -1)[:, :, None]
        found.append(several.gather(2, index)[:, :, 0] - several.logsumexp(dim=2))
    return torch.cat(found, dim=1)


def iter_log_probs(
    forward_pass: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int]
) -> Iterator[tuple[slice, Float[Tensor, "copies n V"]]]:
    """Yield the log-probabilities of these rows in chunks, as `iter_row_logits` does."""
    for part, found in iter_row_logits(forward_pass, hidden, rows):
        yield part, found.log_softmax(dim=-1)


def iter_row_logits(
    forward_pass: Pass, hidden: Float[Tensor, "copies T E"], rows: Sequence[int]
) -> Iterator[tuple[slice, Float[Tensor, "copies n V"]]]:
    """Yield the logits of these rows in chunks, each with the slice of `rows` it covers."""
    if forward_pass.logit_rows == (0,) and forward_pass.n_rows > 1:  # one decision for the whole text
        yield slice(0, len(rows)), forward_pass.logits(hidden).float().expand(-1, len(rows), -1)
        return
    if rows:
        _, width = forward_pass.points()["logits"]
        yield from iter_logits(forward_pass.logits, hidden[:, list(rows)], vocab_size=width)
