"""Strings to ids and back. Knows no model and opens no files."""

from sightline.text.special import MASKING_TOKENS, SEQUENCE_TOKENS, Role
from sightline.text.tokenizer import Tokenizer
from sightline.text.trainer import train_bpe, train_characters

__all__ = ["MASKING_TOKENS", "SEQUENCE_TOKENS", "Role", "Tokenizer", "train_bpe", "train_characters"]
