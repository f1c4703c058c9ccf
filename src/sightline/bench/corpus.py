"""`sightline bench corpus`: training on real sentences, where every batch has another shape.

A single step on one batch leaves out what a run also does: select sentences, pad them, shift targets, clip, update the
schedule. Here every contender trains on the same sentences, one epoch per run:

    sightline             our batch source (batches by tokens, sorted by length), packed, our objective, clip, AdamW
    … sorted              another library's model in the loop of HF's Trainer: batches of a fixed number of sentences,
                          sorted by length as `group_by_length` does
    HF Marian, shuffled   the same without sorting, the Trainer's default
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sightline.bench.contenders import OURS, Contender, Plan, Setting, with_arguments
from sightline.bench.growth import Growth, GrowthReport, measure_growth
from sightline.bench.limits import describe_machine
from sightline.bench.report import Report
from sightline.bench.shapes import END, PAD
from sightline.bench.train import PEERS, run_products
from sightline.bench.worker import Job
from sightline.data.corpora.builtin import make_phrasebook, translations
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import Counts
from sightline.data.corpora.records import SOURCE_AND_TARGET
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.batch import PairBatch
from sightline.data.datasets.batch_source import PairBatchSource, RankSlice
from sightline.data.datasets.batching import Batches, BatchSettings
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.tokenizers import Tokenizer, train_bpe
from sightline.errors import InputError
from sightline.model.interfaces import Seq2Seq
from sightline.model.registry import build, preset, resolve
from sightline.runtime import TRAINING_SPIN_COUNT, choose_device, keep_freed_memory, limit_spinning, multiply_by
from sightline.training.estimate import synchronize
from sightline.training.objective import Objective
from sightline.training.precision import describe

VOCAB_SIZE = 8_000
BATCH_TOKENS = 6_000
MEGABATCH = 50
"""Batches that HF's Trainer sorts at once."""
PRESETS = {"tiny": "transformer-tiny", "base": "paper-base"}


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

    @property
    def fixed_size(self) -> int:
        """Sentences of a batch that has as many tokens as ours, on average."""
        mean = (sum(map(len, self.sources)) + self.n_target_tokens) / len(self.sources)
        return max(1, round(BATCH_TOKENS / mean))

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


def read_sentences(source: str | None, target: str | None, *, n: int) -> Sentences:
    """Return the first `n` pairs, tokenized by a tokenizer trained on them."""
    if (source is None) != (target is None):
        raise InputError("--source and --target must be given together")
    if source is None:
        book = make_phrasebook(n_train=n, n_unseen=1)
        pairs = [(pair.source, pair.target) for pair in islice(translations(book.train), 0, None, 30)][:n]
    else:
        corpus = Corpus(DataSettings(train=source, train_target=str(target)), SOURCE_AND_TARGET)
        pairs = [(str(r.fields[0]), str(r.fields[1])) for r in islice(corpus.records(), n)]
    tokenizer = train_bpe([text for pair in pairs for text in pair], vocab_size=VOCAB_SIZE)
    sources, targets = (tokenizer.encode_batch(list(side)) for side in zip(*pairs, strict=True))
    return Sentences(tokenizer, sources, targets)


def contenders() -> list[Contender]:
    """Return ours and the peers."""
    fp32, bf16 = Setting("fp32"), Setting("bf16 autocast", {"autocast": True})
    found = [Contender(OURS, "sightline.bench.corpus:our_job")]
    for name, (package, made) in PEERS[Seq2Seq].items():
        orders = {"sorted": True, "shuffled": False} if name == "HF Marian" else {"sorted": True}
        for order, by_length in orders.items():
            settings = with_arguments((fp32, bf16), made=made, by_length=by_length)
            build_ = "sightline.bench.corpus:peer_job"
            found.append(Contender(f"{name}, {order}", build_, (package,), settings))
    return found


def our_job(source: str | None, target: str | None, n: int, size: str) -> Job:
    """Train one epoch as our runs do."""
    limit_spinning(TRAINING_SPIN_COUNT)
    keep_freed_memory()
    sentences = read_sentences(source, target, n=n)
    device, tokenizer = choose_device(), sentences.tokenizer
    model: Any = build(preset(PRESETS[size], vocab_size=tokenizer.vocab_size, dropout=0.1)).to(device).train()
    rank_slice = RankSlice(BatchSettings(batch_tokens=BATCH_TOKENS), seed=1)
    everything = np.arange(len(sentences.sources))
    batch_source = PairBatchSource(sentences.dataset(), everything, rank_slice, source=tokenizer, target=tokenizer)
    objective, optimizer = Objective(0.1), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    epoch = batch_source.epoch(0)
    typical = epoch[int(epoch.sizes.argsort()[len(epoch) // 2])].to(device)
    products = run_products(model, lambda: objective(model, typical).total.backward())  # type: ignore[no-untyped-call]

    def train_epoch() -> None:
        for batch in batch_source.epoch(0):
            optimizer.zero_grad(set_to_none=True)
            with multiply_by(products):
                loss = objective(model, batch.to(device))
                (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        synchronize(device)

    return Job(train_epoch, {"padding": 0.0, "products": describe(products)})


def peer_job(
    source: str | None, target: str | None, n: int, size: str, *, made: str, by_length: bool, autocast: bool = False
) -> Job:
    """Train one epoch as HF's Trainer does: collate, forward, clip, AdamW, schedule."""
    keep_freed_memory()
    sentences = read_sentences(source, target, n=n)
    device, shift = choose_device(), END + 1  # of the ids, so that none of them is the peers' padding
    config = preset(PRESETS[size], vocab_size=sentences.tokenizer.vocab_size + shift, dropout=0.1)
    model: nn.Module = resolve(made)(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    batches = fixed_batches(sentences, sentences.fixed_size, by_length=by_length)
    sides = [[np.array(ids) + shift for ids in side] for side in (sentences.sources, sentences.targets)]

    def train_epoch() -> None:
        for numbers in batches:
            rows = ([side[number] for number in numbers] for side in sides)
            batch = PairBatch.of(*rows, source_pad_id=PAD, pad_id=PAD, start_id=END, end_id=END).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
                loss = model(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        synchronize(device)

    return Job(train_epoch, {"padding": padding_share(sentences, batches)})


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


def our_padding_share(sentences: Sentences) -> float:
    """Return the share of padding in our batches if they were padded."""
    lengths = sentences.dataset().lengths + np.array([0, 1])
    return Batches(lengths, BatchSettings(batch_tokens=BATCH_TOKENS), seed=1).epoch(0).padding_share


@dataclass(frozen=True)
class EpochSettings:
    """Files to train on, and the size of the model."""

    source: Path | None
    target: Path | None
    size: str

    def arguments(self, n: int) -> dict[str, Any]:
        """Return what a contender's process is told."""
        source, target = (None if path is None else str(path.resolve()) for path in (self.source, self.target))
        return {"source": source, "target": target, "n": n, "size": self.size}


def bench_corpus(epoch: EpochSettings, n_sentences: int, plan: Plan) -> Report:
    """Time an epoch of ours and of every peer."""
    machine = describe_machine()
    arguments = epoch.arguments(n_sentences)
    sentences = read_sentences(arguments["source"], arguments["target"], n=n_sentences)
    results = plan.run(contenders(), arguments)
    shares = [f"{one.name} {one.facts['padding']:.1%}" for one in results if "padding" in one.facts]
    remarks = [f"  padding: {', '.join(shares)} (our batches before packing: {our_padding_share(sentences):.1%})"]
    remarks += [f"  {one.facts['products']}" for one in results if "products" in one.facts]
    n_tokens = sentences.n_target_tokens
    about = f"One epoch, {epoch.size}: {len(sentences.sources):,} pairs, {n_tokens:,} target tokens"
    return Report("corpus", about, results, machine, n_tokens, remarks=remarks)


def grow_corpus(epoch: EpochSettings, growth: Growth, plan: Plan) -> GrowthReport:
    """Follow an epoch while the corpus grows."""
    return measure_growth("corpus", f"One epoch, {epoch.size}", growth, contenders(), epoch.arguments, plan)
