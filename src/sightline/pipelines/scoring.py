"""Scoring: log-probabilities and attention of given tokens, in running text or in the target of a source."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.data.datasets.batch import join_rows, pad, token_mask
from sightline.engine.torch_engine import require_cross_attention
from sightline.errors import InputError
from sightline.model import ActivationCache, CausalLM, Seq2Seq
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.logits import iter_logits
from sightline.model.registry import interface_of
from sightline.pipelines.pipeline import batch_by_tokens

DEFAULT_BLOCK_SIZE = 1_024
"""Tokens per block for a model without a length limit."""


def text_token_log_probs(
    model: CausalLM, documents: Sequence[Sequence[int]], *, context: int = 0, batch_tokens: int
) -> list[Float[Tensor, "..."]]:
    """Return, for each list of ids, the log-probability of every id but the first.

    Text is cut into blocks of the model's maximum length. Each block after the first begins with the last `context`
    ids of the one before it, so every id is scored once; a larger context means more blocks.
    """
    length = model.config.max_length or DEFAULT_BLOCK_SIZE
    if not 0 <= context < length:
        raise InputError(
            f"a context of {context:,} tokens: this model reads {length:,} at once, so it must be 0 to {length - 1:,}"
        )
    places = [
        (number, *window)
        for number, ids in enumerate(documents)
        for window in split_windows(len(ids) - 1, length=length, context=context)
    ]
    blocks = [documents[number][begin : end + 1] for number, begin, _, end in places]
    found: list[Tensor] = [torch.empty(0)] * len(blocks)
    for chosen in batch_by_tokens([len(block) - 1 for block in blocks], batch_tokens=batch_tokens):
        ids, lengths = pad([blocks[number] for number in chosen], device=model.output.weight.device)
        read, targets, lengths = ids[:, :-1], ids[:, 1:], lengths - 1
        hidden = model.decode(read, lengths=lengths, packed=True)
        known = torch.tensor([places[number][2] - places[number][1] for number in chosen], device=read.device)
        real = token_mask(targets, lengths)
        counts = (torch.arange(read.size(1), device=read.device) >= known[:, None])[real]  # context is read, not scored
        likely = gather_log_probs(model, hidden[counts], targets[real][counts]).cpu()
        for number, part in zip(chosen, torch.split(likely, (lengths - known).tolist()), strict=True):
            found[number] = part
    parts: list[list[Tensor]] = [[torch.empty(0)] for _ in documents]
    for (number, *_), part in zip(places, found, strict=True):
        parts[number].append(part)
    return [torch.cat(own) for own in parts]


def split_windows(n: int, *, length: int, context: int) -> Iterator[tuple[int, int, int]]:
    """Yield for each block where it begins, where scoring begins, and where it ends; scores every position once."""
    first = 0
    while first < n:
        begin = max(0, first - context)
        end = min(n, begin + length)
        yield begin, first, end
        first = end


def target_token_log_probs(
    model: Seq2Seq | CausalLM,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
) -> list[Float[Tensor, "..."]]:
    """Return, for each target, the log-probability of every id, given its source and the ids before it."""
    found: list[Tensor] = [torch.empty(0)] * len(targets)
    for chosen, hidden, labels in teacher_force(model, sources, targets, start_id=start_id, batch_tokens=batch_tokens):
        likely = gather_log_probs(model, hidden, labels).cpu()
        sizes = [len(targets[number]) for number in chosen]
        for number, part in zip(chosen, torch.split(likely, sizes), strict=True):
            found[number] = part
    return found


def compute_cross_attention(
    model: Seq2Seq | CausalLM,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
) -> list[Float[Tensor, "..."]]:
    """Return the last layer's cross-attention for each pair, heads averaged, in one pass with the target given.

    Attention is not alignment: `tracing.Alignment` says why.
    """
    point = require_cross_attention(model)
    activations = ActivationCache(point)
    found = [torch.empty(0, len(source)) for source in sources]
    for chosen, *_ in teacher_force(
        model, sources, targets, start_id=start_id, batch_tokens=batch_tokens, hooks=activations
    ):
        weights = activations[point].mean(dim=1).cpu()  # B T S
        for row, number in enumerate(chosen):
            found[number] = weights[row, : len(targets[number]), : len(sources[number])]
    return found


@dataclass(frozen=True)
class Pairs:
    """A batch of sources and decoder inputs, each padded on the right."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, "B"]
    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]


def decode_after_encoding(model: Seq2Seq, pairs: Pairs, hooks: NoHooks) -> Float[Tensor, "N E"]:
    """Return the decoder's output at all inputs, the source encoded."""
    encoder_output = model.encode(pairs.source, lengths=pairs.source_lengths, packed=True, hooks=hooks)
    return model.decode(pairs.inputs, encoder_output, lengths=pairs.lengths, packed=True, hooks=hooks)


def decode_in_sequence(model: CausalLM, pairs: Pairs, hooks: NoHooks) -> Float[Tensor, "N E"]:
    """Return the output at all inputs, which follow the source in one sequence."""
    ids, lengths, is_input = join_rows(pairs.source, pairs.source_lengths, pairs.inputs, pairs.lengths)
    return model.decode(ids, lengths=lengths, packed=True, hooks=hooks)[is_input]


@dataclass(frozen=True)
class PairReader:
    """How the models of an interface read a source and a target."""

    decode: Callable[[Any, Pairs, NoHooks], Float[Tensor, "N E"]]
    """Returns the output of the decoder at all inputs of a batch, without padding."""
    in_sequence: bool
    """Source, start token and target are one sequence and share its positions."""


PAIR_READERS: dict[type, PairReader] = {
    Seq2Seq: PairReader(decode_after_encoding, in_sequence=False),
    CausalLM: PairReader(decode_in_sequence, in_sequence=True),
}


def register_pair_reader(interface: type, reader: PairReader) -> None:
    """Let models of an interface read pairs in this way."""
    PAIR_READERS[interface] = reader


def pair_reader(model: Seq2Seq | CausalLM) -> PairReader:
    """Return how a model reads pairs."""
    return PAIR_READERS[interface_of(model.config)]


def teacher_force(
    model: Seq2Seq | CausalLM,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
    hooks: NoHooks = NO_HOOKS,
) -> Iterator[tuple[list[int], Float[Tensor, "N E"], Int[Tensor, "N"]]]:
    """Run the model with the targets given (teacher forcing); yield batches of them, those without tokens left out.

    A batch is the indices of its targets, the output of the decoder at all their positions, and the ids to predict
    there: a token is predicted at the position before it, the first one at the start token.
    """
    device = model.output.weight.device
    lengths = [len(source) + len(target) if target else 0 for source, target in zip(sources, targets, strict=True)]
    for chosen in batch_by_tokens(lengths, batch_tokens=batch_tokens):
        source, source_lengths = pad([sources[number] for number in chosen], device=device)
        target, target_lengths = pad([[start_id, *targets[number]] for number in chosen], device=device)
        inputs, labels, target_lengths = target[:, :-1], target[:, 1:], target_lengths - 1
        hidden = pair_reader(model).decode(model, Pairs(source, source_lengths, inputs, target_lengths), hooks)
        yield chosen, hidden, labels[token_mask(labels, target_lengths)]


def gather_log_probs(
    model: CausalLM | Seq2Seq, hidden: Float[Tensor, "N E"], targets: Int[Tensor, "N"]
) -> Float[Tensor, "N"]:
    """Return the log-probability of each target, in chunks: never all logits at once."""
    parts = [
        logits.log_softmax(dim=1).gather(1, targets[at, None])[:, 0]
        for at, logits in iter_logits(model.logits, hidden, vocab_size=model.output.out_features)
    ]
    return torch.cat(parts)
