"""`sightline bench corpus`: training on real sentences, ours against the loop of HF's Trainer.

A single step on one batch leaves out what a run also does: select sentences, pad them, shift targets, clip, update the
schedule. Here every contender trains on the same sentences, one epoch per round:

    sightline      our batch source (batches by tokens, sorted by length), packed, our objective, clip, fused AdamW
    HF, sorted     batches of a fixed number of sentences, sorted by length as `group_by_length` does, Marian
    HF, shuffled   the same without sorting, the Trainer's default
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sightline.bench.measure import Timing, time_interleaved
from sightline.bench.train import PAD, HuggingFaceMarian
from sightline.data.corpora.builtin import make_phrasebook, translations
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import Counts
from sightline.data.corpora.records import SOURCE_AND_TARGET
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.batch import IGNORE_INDEX, pad
from sightline.data.datasets.batch_source import PairBatchSource, RankSlice
from sightline.data.datasets.batching import Batches, BatchSettings
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.tokenizers import Tokenizer, train_bpe
from sightline.errors import InputError
from sightline.model.config import TransformerConfig
from sightline.model.registry import preset
from sightline.model.transformer import Transformer
from sightline.runtime import choose_device
from sightline.training.estimate import synchronize
from sightline.training.objective import Objective

VOCAB_SIZE = 8_000
MEGABATCH = 50
"""Batches that HF's Trainer sorts at once."""


@dataclass(frozen=True)
class Sentences:
    """Pairs of sentences as ids."""

    tokenizer: Tokenizer
    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]

    @property
    def n_target_tokens(self) -> int:
        """Target tokens, end tokens included."""
        return sum(len(target) + 1 for target in self.targets)

    def dataset(self) -> EncodedDataset:
        """Return the sentences as our batch source reads them."""
        rows = [ids for pair in zip(self.sources, self.targets, strict=True) for ids in pair]
        n = len(self.sources)
        return EncodedDataset(
            np.concatenate([np.array(ids, dtype=np.uint16) for ids in rows]),
            np.cumsum([0, *map(len, rows)]),
            np.arange(n, dtype=np.uint64),
            np.zeros(n, dtype=np.int64),
            2,
            Counts(),
        )


def read_sentences(source: Path | None, target: Path | None, *, n: int) -> Sentences:
    """Return the first `n` pairs, tokenized by a tokenizer trained on them."""
    if (source is None) != (target is None):
        raise InputError("--source and --target must be given together")
    if source is None:
        book = make_phrasebook(n_train=n, n_unseen=1)
        pairs = [(pair.source, pair.target) for pair in islice(translations(book.train), 0, None, 30)][:n]
    else:
        corpus = Corpus(DataSettings(train=str(source), train_target=str(target)), SOURCE_AND_TARGET)
        pairs = [(str(r.fields[0]), str(r.fields[1])) for r in islice(corpus.records(), n)]
    tokenizer = train_bpe([text for pair in pairs for text in pair], vocab_size=VOCAB_SIZE)
    sources, targets = (tokenizer.encode_batch(list(side)) for side in zip(*pairs, strict=True))
    return Sentences(tokenizer, sources, targets)


def ours(sentences: Sentences, config: TransformerConfig, *, batch_tokens: int) -> Callable[[], None]:
    """Return a function that trains one epoch as our runs do."""
    device = choose_device()
    model, tokenizer = Transformer(config).to(device).train(), sentences.tokenizer
    rank_slice = RankSlice(BatchSettings(batch_tokens=batch_tokens), seed=1)
    everything = np.arange(len(sentences.sources))
    batch_source = PairBatchSource(sentences.dataset(), everything, rank_slice, source=tokenizer, target=tokenizer)
    objective, optimizer = Objective(0.1), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def train_epoch() -> None:
        for batch in batch_source.epoch(0):
            loss = objective(model, batch.to(device))
            optimizer.zero_grad(set_to_none=True)
            (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        synchronize(device)

    return train_epoch


def theirs(
    sentences: Sentences, config: TransformerConfig, *, batch_sentences: int, by_length: bool
) -> Callable[[], None]:
    """Return a function that trains one epoch as HF's Trainer does: collate, forward, clip, AdamW, schedule."""
    device = choose_device()
    model = HuggingFaceMarian(config).model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    start, end = sentences.tokenizer.start_id or 0, sentences.tokenizer.end_id or 0

    def train_epoch() -> None:
        for numbers in fixed_batches(sentences, batch_sentences, by_length=by_length):
            inputs, _ = pad([sentences.sources[n] for n in numbers], pad_id=PAD, device=device)
            labels, _ = pad([[*sentences.targets[n], end] for n in numbers], pad_id=IGNORE_INDEX, device=device)
            read, _ = pad([[start, *sentences.targets[n]] for n in numbers], pad_id=PAD, device=device)
            found = model(input_ids=inputs, attention_mask=(inputs != PAD).long(), decoder_input_ids=read)
            loss = nn.functional.cross_entropy(found.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        synchronize(device)

    return train_epoch


def fixed_batches(sentences: Sentences, size: int, *, by_length: bool) -> list[list[int]]:
    """Cut shuffled sentences into batches of one size, sorted by length within megabatches if `by_length`."""
    order = np.random.default_rng(1).permutation(len(sentences.sources)).tolist()
    if by_length:
        window = size * MEGABATCH
        parts = [order[at : at + window] for at in range(0, len(order), window)]
        order = [n for part in parts for n in sorted(part, key=lambda n: len(sentences.sources[n]), reverse=True)]
    return [order[at : at + size] for at in range(0, len(order), size)]


def padding_share(sentences: Sentences, batches: Sequence[Sequence[int]]) -> float:
    """Return the share of padding in padded batches."""
    grid = real = 0
    for numbers in batches:
        lengths = [(len(sentences.sources[n]), len(sentences.targets[n]) + 1) for n in numbers]
        grid += len(numbers) * sum(max(side) for side in zip(*lengths, strict=True))
        real += sum(map(sum, lengths))
    return 1 - real / grid


def our_padding_share(sentences: Sentences, batch_tokens: int) -> float:
    """Return the share of padding in our batches if they were padded."""
    lengths = sentences.dataset().lengths + np.array([0, 1])
    return Batches(lengths, BatchSettings(batch_tokens=batch_tokens), seed=1).epoch(0).padding_share


def bench_corpus(
    sentences: Sentences,
    *,
    rounds: int,
    batch_tokens: int = 6_000,
    model: str = "transformer-tiny",
    after_round: Callable[[int], object] = lambda _: None,
) -> tuple[list[Timing], dict[str, float]]:
    """Time one epoch of each contender, interleaved; also return the share of padding in the batches."""
    config = preset(model, vocab_size=sentences.tokenizer.vocab_size, dropout=0.1)
    assert isinstance(config, TransformerConfig)  # noqa: S101 - it is; this tells the type checker
    mean = (sum(map(len, sentences.sources)) + sentences.n_target_tokens) / len(sentences.sources)
    size = max(1, round(batch_tokens / mean))
    contenders = {
        "sightline": ours(sentences, config, batch_tokens=batch_tokens),
        "HF, sorted": theirs(sentences, config, batch_sentences=size, by_length=True),
        "HF, shuffled": theirs(sentences, config, batch_sentences=size, by_length=False),
    }
    padding = {
        "shuffled": padding_share(sentences, fixed_batches(sentences, size, by_length=False)),
        "sorted as HF does": padding_share(sentences, fixed_batches(sentences, size, by_length=True)),
        "ours, before packing": our_padding_share(sentences, batch_tokens),
        "ours, packed": 0.0,
    }
    return time_interleaved(contenders, rounds=rounds, warm_up=1, after_round=after_round), padding
