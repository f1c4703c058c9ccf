"""How well a model foresees what is there: running text, in blocks as long as it can take, or a source's target."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.errors import InputError
from sightline.model import GPT, Transformer
from sightline.pipelines.batches import batches
from sightline.pipelines.rows import grid
from sightline.text.batch import real_tokens
from sightline.training.loss import CHUNK_BYTES, chunks

USUAL_BLOCK = 1_024
"""Tokens of a block, for a model that has no limit."""


def foreseen(
    model: GPT, documents: Sequence[Sequence[int]], *, context: int = 0, batch_tokens: int
) -> list[Float[Tensor, "..."]]:
    """Return, for each list of ids, the log-probability of every id but the first.

    A block after the first begins so early that the model has read `context` ids before the first that it foresees
    there. Each is foreseen once; the smaller the rest of a block, the more blocks there are.
    """
    length = model.config.max_length or USUAL_BLOCK
    if not 0 <= context < length:
        raise InputError(
            f"a context of {context:,} tokens: this model reads {length:,} at once, so 0 to {length - 1:,}"
        )
    places = [
        (number, *window)
        for number, ids in enumerate(documents)
        for window in windows(len(ids) - 1, length=length, context=context)
    ]
    blocks = [documents[number][begin : end + 1] for number, begin, _, end in places]
    found: list[Tensor] = [torch.empty(0)] * len(blocks)
    for chosen in batches([len(block) - 1 for block in blocks], batch_tokens=batch_tokens):
        ids, lengths = grid([blocks[number] for number in chosen], like=model.output.weight)
        read, targets, lengths = ids[:, :-1], ids[:, 1:], lengths - 1
        hidden = model.decode(read, lengths=lengths, packed=True)
        known = torch.tensor([places[number][2] - places[number][1] for number in chosen], device=read.device)
        real = real_tokens(targets, lengths)
        counts = (torch.arange(read.size(1), device=read.device) >= known[:, None])[real]  # the context was only read
        likely = token_log_probabilities(model, hidden[counts], targets[real][counts]).cpu()
        for number, part in zip(chosen, torch.split(likely, (lengths - known).tolist()), strict=True):
            found[number] = part
    parts: list[list[Tensor]] = [[torch.empty(0)] for _ in documents]
    for (number, *_), part in zip(places, found, strict=True):
        parts[number].append(part)
    return [torch.cat(own) for own in parts]


def windows(n: int, *, length: int, context: int) -> Iterator[tuple[int, int, int]]:
    """Yield where each block begins, from where on it counts, and where it ends: 0 to n, every place once."""
    first = 0
    while first < n:
        begin = max(0, first - context)
        end = min(n, begin + length)
        yield begin, first, end
        first = end


def foreseen_targets(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
) -> list[Float[Tensor, "..."]]:
    """Return, for each target, the log-probability of every id, given its source and the ids before it."""
    found: list[Tensor] = [torch.empty(0)] * len(targets)
    lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    for chosen in batches(lengths, batch_tokens=batch_tokens):
        read, read_lengths = grid([sources[number] for number in chosen], like=model.output.weight)
        ids, sizes = grid([[start_id, *targets[number]] for number in chosen], like=model.output.weight)
        inputs, goals, sizes = ids[:, :-1], ids[:, 1:], sizes - 1
        memory = model.encode(read, lengths=read_lengths, packed=True)
        hidden = model.decode(inputs, memory, lengths=sizes, packed=True)
        likely = token_log_probabilities(model, hidden, goals[real_tokens(goals, sizes)]).cpu()
        for number, part in zip(chosen, torch.split(likely, sizes.tolist()), strict=True):
            found[number] = part
    return found


def token_log_probabilities(
    model: GPT | Transformer, hidden: Float[Tensor, "N E"], targets: Int[Tensor, "N"]
) -> Float[Tensor, "N"]:
    """Return the log-probability of each target, without ever holding the scores of all words for all of them."""
    parts = [
        model.logits(hidden[at]).float().log_softmax(dim=1).gather(1, targets[at, None])[:, 0]
        for at in chunks(len(targets), row_bytes=4 * model.output.weight.size(0), at_once=CHUNK_BYTES)
    ]
    return torch.cat(parts)
