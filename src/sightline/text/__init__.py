"""Text to batches of ids and back: corpora, tokenizers, encoded datasets, batches. Knows no model."""

from sightline.text.special import MASKING_TOKENS, SEQUENCE_TOKENS, tag_token
from sightline.text.tokenizer import Tokenizer
from sightline.text.trainer import train_bpe, train_characters, train_tokenizer

__all__ = [
    "MASKING_TOKENS",
    "SEQUENCE_TOKENS",
    "Tokenizer",
    "tag_token",
    "train_bpe",
    "train_characters",
    "train_tokenizer",
]
