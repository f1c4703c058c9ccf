"""A few examples of every task as a store in memory, the feed that batches them, and a tiny model that learns it."""

import numpy as np

from sightline.text import MASKING_TOKENS, SEQUENCE_TOKENS, train_characters
from sightline.text.batching import BatchSettings
from sightline.text.counts import Counts
from sightline.text.feed import Feed, LabelledFeed, MaskedFeed, PairFeed, SentencePairFeed, Share, TaggedFeed, TextFeed
from sightline.text.masking import Masker, MaskingSettings
from sightline.text.store import Store

from .toy import tiny_model

WRITING = train_characters(["abcdefgh "], vocab_size=300, special_tokens=SEQUENCE_TOKENS)
FILLING = train_characters(["abcdefgh "], vocab_size=300, special_tokens=MASKING_TOKENS)
LONGEST = 24
TASKS = ("pairs", "text", "masked", "sentences", "labelled", "tagged")


def store_of(rows, *, labels=None) -> Store:
    """Keep rows of one or two texts each."""
    sequences = [ids for row in rows for ids in row]
    return Store(
        np.concatenate([np.array(ids, dtype=np.uint16) for ids in sequences]),
        np.cumsum([0, *map(len, sequences)]),
        np.arange(len(rows), dtype=np.uint64),
        np.zeros(len(rows), dtype=np.int64) if labels is None else np.array(labels),
        len(rows[0]),
        Counts(),
    )


def texts(n: int, *, seed: int = 0) -> list[str]:
    chance = np.random.default_rng(seed)
    return ["".join(chance.choice(list("abcdefgh "), size=chance.integers(3, 12))) for _ in range(n)]


def feed_of(task: str, *, n: int = 40, batch_tokens: int = 120, rank: int = 0, world: int = 1) -> Feed:
    """Return the batches of a task."""
    share = Share(BatchSettings(batch_tokens=batch_tokens), 7, rank, world)
    everything, chosen = np.arange(n), np.ones(n, dtype=np.bool_)
    tokenizer = WRITING if task in ("pairs", "text") else FILLING
    ids = [tokenizer.encode(text) for text in texts(n)]
    if task == "pairs":
        store = store_of([(row, row[::-1]) for row in ids])
        return PairFeed(store, everything, share, source=WRITING, target=WRITING)
    if task == "text":
        return TextFeed(store_of([(row,) for row in ids]), chosen, share, tokenizer=WRITING, length=LONGEST)
    masker = Masker(FILLING, MaskingSettings(), seed=3)
    common = {"tokenizer": FILLING, "length": LONGEST}
    if task == "masked":
        return MaskedFeed(store_of([(row,) for row in ids]), chosen, share, masker=masker, **common)
    if task == "sentences":
        store = store_of([(row,) for row in ids])
        return SentencePairFeed(store, everything, share, documents=everything // 5, masker=masker, **common)
    if task == "labelled":
        store = store_of([(row, row[::2]) for row in ids], labels=everything % 3)
        return LabelledFeed(store, everything, share, **common)
    tags = [[1 + id_ % 3 if number % 2 == 0 else 0 for number, id_ in enumerate(row)] for row in ids]
    return TaggedFeed(store_of(list(zip(ids, tags, strict=True))), everything, share, **common)


def model_for(task: str, *, dropout: float = 0.0, seed: int = 0):
    """Return a tiny model that learns the task."""
    family = {"pairs": "transformer", "text": "gpt"}.get(task, "bert")
    heads = {
        "masked": ["masked_words"],
        "sentences": ["masked_words", "next_sentence"],
        "labelled": ["sequence_classes"],
        "tagged": ["token_classes"],
    }
    sizes = {"heads": heads[task], "n_classes": 3} if family == "bert" else {}
    vocabulary = WRITING if family != "bert" else FILLING
    return tiny_model(family, seed=seed, vocab_size=vocabulary.vocab_size, max_length=LONGEST, dropout=dropout, **sizes)
