"""Cross-attention of finished translations, in batches, for aligning their words with the source's.

Attention is not alignment: `sightline.tracing.alignment` says why, and makes the links.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.model import ActivationCache, Transformer
from sightline.pipelines.detokenizer import DetokenizerState, IncrementalDetokenizer
from sightline.pipelines.scoring import teacher_force
from sightline.pipelines.steps import last_cross_attention
from sightline.text import Tokenizer
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
    activations = ActivationCache(point)
    found = [torch.empty(0, len(source)) for source in sources]
    for chosen, *_ in teacher_force(
        model, sources, targets, start_id=start_id, batch_tokens=batch_tokens, hooks=activations
    ):
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
