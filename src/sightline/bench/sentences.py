"""The sentences of `bench corpus`: from two parallel files, or the built-in phrases."""

from itertools import islice
from pathlib import Path

from sightline.bench.corpus import Sentences
from sightline.errors import InputError
from sightline.text import train_bpe
from sightline.text.corpus import Corpus
from sightline.text.data import DataSettings
from sightline.text.phrasebook import make_phrasebook, translations
from sightline.text.record import SOURCE_AND_TARGET

VOCAB_SIZE = 8_000


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
