"""Text to batches of ids and back: corpora, tokenizers, encoded datasets, batches. Knows no model."""

from sightline.data.tokenizers.tokenizer import MASKING_TOKENS, SEQUENCE_TOKENS, Tokenizer, tag_token
from sightline.data.tokenizers.training import train_bpe, train_characters, train_tokenizer

__all__ = [
    "MASKING_TOKENS",
    "SEQUENCE_TOKENS",
    "Tokenizer",
    "tag_token",
    "train_bpe",
    "train_characters",
    "train_tokenizer",
]
