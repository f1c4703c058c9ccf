"""Which words of a translation looked at which words of its source, for many translations at once.

Attention is not alignment: `sightline.tracing.alignment` says why, and makes the links.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.model import Recorder, Transformer
from sightline.pipelines.batches import batches
from sightline.pipelines.rows import grid
from sightline.pipelines.spelling import Speller, Spelling
from sightline.pipelines.steps import last_cross_attention
from sightline.text import Tokenizer
from sightline.tracing.passage import Span


def attention_of(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
) -> list[Float[Tensor, "..."]]:
    """Return for each pair where every target token looked when it was written, by one pass with the target given."""
    point = last_cross_attention(model)
    found: list[Tensor] = [torch.empty(0, 0)] * len(sources)
    lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    for chosen in batches(lengths, batch_tokens=batch_tokens):
        source, source_lengths = grid([sources[number] for number in chosen], like=model.output.weight)
        # The token at each place is written at the place before it, where the start stands for the first.
        read, read_lengths = grid([[start_id, *targets[number][:-1]] for number in chosen], like=model.output.weight)
        recorder = Recorder(point)
        memory = model.encode(source, lengths=source_lengths, packed=True)
        model.decode(read, memory, lengths=read_lengths, packed=True, probe=recorder)
        weights = recorder[point].mean(dim=1).cpu()  # B T S
        for row, number in enumerate(chosen):
            found[number] = weights[row, : len(targets[number]), : len(sources[number])]
    return found


def written_spans(ids: Sequence[int], tokenizer: Tokenizer, text: str, *, context: Sequence[int] = ()) -> list[Span]:
    """Return where in the text that was written each id stands; those that make a character together stand together."""
    speller, spelling, spans = Speller(tokenizer, context), Spelling(), list[Span]()
    for count in range(1, len(ids) + 1):
        start = min(len(spelling.text), len(text))
        spelling = speller.go_on(spelling, ids[:count], last=count == len(ids))
        if spelling.settled == count:
            spans += [(start, min(len(spelling.text), len(text)))] * (count - len(spans))
    return spans
