"""A few examples of every task as a dataset in memory, their batch source, and a tiny model for the task."""

import numpy as np

from sightline.data.corpora.files import Counts
from sightline.data.datasets.batch_source import (
    BatchSource,
    LabeledBatchSource,
    MaskedBatchSource,
    PairBatchSource,
    RankSlice,
    SentencePairBatchSource,
    TaggedBatchSource,
    TextBatchSource,
)
from sightline.data.datasets.batching import BatchSettings
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.datasets.masking import Masker, MaskingSettings
from sightline.data.tokenizers import MASKING_TOKENS, SEQUENCE_TOKENS, train_characters

from .toy import tiny_model

GENERATIVE = train_characters(["abcdefgh "], vocab_size=300, special_tokens=SEQUENCE_TOKENS)
MASKED = train_characters(["abcdefgh "], vocab_size=300, special_tokens=MASKING_TOKENS)
MAX_LENGTH = 24
TASKS = ("pairs", "text", "masked", "sentences", "labeled", "tagged")


def dataset_of(rows, *, labels=None) -> EncodedDataset:
    """Keep rows of one or two texts each."""
    sequences = [ids for row in rows for ids in row]
    return EncodedDataset(
        np.concatenate([np.array(ids, dtype=np.uint16) for ids in sequences]),
        np.cumsum([0, *map(len, sequences)]),
        np.arange(len(rows), dtype=np.uint64),
        np.zeros(len(rows), dtype=np.int64) if labels is None else np.array(labels),
        len(rows[0]),
        Counts(),
    )


def texts(n: int, *, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abcdefgh "), size=rng.integers(3, 12))) for _ in range(n)]


def batch_source_of(task: str, *, n: int = 40, batch_tokens: int = 120, rank: int = 0, world: int = 1) -> BatchSource:
    """Return the batches of a task."""
    rank_slice = RankSlice(BatchSettings(batch_tokens=batch_tokens), 7, rank, world)
    everything, selected = np.arange(n), np.ones(n, dtype=np.bool_)
    tokenizer = GENERATIVE if task in ("pairs", "text") else MASKED
    ids = [tokenizer.encode(text) for text in texts(n)]
    if task == "pairs":
        dataset = dataset_of([(row, row[::-1]) for row in ids])
        return PairBatchSource(dataset, everything, rank_slice, source=GENERATIVE, target=GENERATIVE)
    if task == "text":
        return TextBatchSource(
            dataset_of([(row,) for row in ids]), selected, rank_slice, tokenizer=GENERATIVE, length=MAX_LENGTH
        )
    masker = Masker(MASKED, MaskingSettings(), seed=3)
    common = {"tokenizer": MASKED, "length": MAX_LENGTH}
    if task == "masked":
        return MaskedBatchSource(dataset_of([(row,) for row in ids]), selected, rank_slice, masker=masker, **common)
    if task == "sentences":
        dataset = dataset_of([(row,) for row in ids])
        return SentencePairBatchSource(
            dataset, everything, rank_slice, documents=everything // 5, masker=masker, **common
        )
    if task == "labeled":
        dataset = dataset_of([(row, row[::2]) for row in ids], labels=everything % 3)
        return LabeledBatchSource(dataset, everything, rank_slice, **common)
    tags = [[1 + id_ % 3 if number % 2 == 0 else 0 for number, id_ in enumerate(row)] for row in ids]
    return TaggedBatchSource(dataset_of(list(zip(ids, tags, strict=True))), everything, rank_slice, **common)


def model_for(task: str, *, dropout: float = 0.0, seed: int = 0):
    """Return a tiny model for the task."""
    family = {"pairs": "transformer", "text": "gpt"}.get(task, "bert")
    heads = {
        "masked": ["mlm"],
        "sentences": ["mlm", "nsp"],
        "labeled": ["sequence_classification"],
        "tagged": ["token_classification"],
    }
    sizes = {"heads": heads[task], "n_classes": 3} if family == "bert" else {}
    vocabulary = GENERATIVE if family != "bert" else MASKED
    return tiny_model(
        family, seed=seed, vocab_size=vocabulary.vocab_size, max_length=MAX_LENGTH, dropout=dropout, **sizes
    )
