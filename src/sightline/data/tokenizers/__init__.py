"""Tokenizers: `Tokenizer` encodes text as ids and decodes ids; `train_tokenizer` trains one on text."""

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
