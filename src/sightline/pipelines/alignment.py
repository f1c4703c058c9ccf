"""Cross-attention of finished translations, in batches, for aligning their words with the source's.

Attention is not alignment: `sightline.tracing.alignment` says why, and makes the links.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.model import ActivationCache, Transformer
from sightline.pipelines.batches import batch_by_tokens
from sightline.pipelines.detokenizer import DetokenizerState, IncrementalDetokenizer
from sightline.pipelines.steps import last_cross_attention
from sightline.text import Tokenizer
from sightline.text.batch import pad
from sightline.tracing.tokenized_text import Span


def compute_cross_attention(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
) -> list[Float[Tensor, "..."]]:
    """Return the last layer's cross-attention for each pair, heads averaged, in one pass with the target given."""
    point = last_cross_attention(model)
    found: list[Tensor] = [torch.empty(0, 0)] * len(sources)
    lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    for chosen in batch_by_tokens(lengths, batch_tokens=batch_tokens):
        source, source_lengths = pad([sources[number] for number in chosen], device=model.output.weight.device)
        # A token is predicted at the position before it, the first one at the start token.
        read, read_lengths = pad(
            [[start_id, *targets[number][:-1]] for number in chosen], device=model.output.weight.device
        )
        activations = ActivationCache(point)
        encoder_output = model.encode(source, lengths=source_lengths, packed=True)
        model.decode(read, encoder_output, lengths=read_lengths, packed=True, hooks=activations)
        weights = activations[point].mean(dim=1).cpu()  # B T S
        for row, number in enumerate(chosen):
            found[number] = weights[row, : len(targets[number]), : len(sources[number])]
    return found


def find_token_spans(ids: Sequence[int], tokenizer: Tokenizer, text: str, *, context: Sequence[int] = ()) -> list[Span]:
    """Return the span of each id in the generated text; ids that share a character share its span."""
    detokenizer, state, spans = IncrementalDetokenizer(tokenizer, context), DetokenizerState(), list[Span]()
    for count in range(1, len(ids) + 1):
        start = min(len(state.text), len(text))
        state = detokenizer.extend(state, ids[:count], last=count == len(ids))
        if state.read_offset == count:
            spans += [(start, min(len(state.text), len(text)))] * (count - len(spans))
    return spans
