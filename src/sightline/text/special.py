"""Special tokens and their roles.

Our tokenizers use fixed names, so tokenizer.json alone gives the roles; in other tokenizers they are recognized by
common names. The config.json of a model folder lists the token of every role, for tokenizers with uncommon names.
"""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from sightline.errors import InputError
from sightline.settings import unknown_name

Role = Literal["pad", "start", "end", "cls", "sep", "mask", "unknown"]

SEQUENCE_TOKENS = ("<pad>", "<s>", "</s>")
"""For generative models: padding, start and end of a sequence."""

MASKING_TOKENS = ("<pad>", "[CLS]", "[SEP]", "[MASK]")
"""For masked language models: padding, BERT's [CLS] and [SEP], the mask."""

COMMON_NAMES: dict[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>"),
    "start": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
    "unknown": ("[UNK]", "<unk>"),
}


def tag_token(language: str) -> str:
    """Return the target-language tag that a multilingual source begins with: "<2de>"."""
    return f"<2{language}>"


def recognize_roles(special_tokens: Collection[str]) -> dict[str, str]:
    """Find the roles of special tokens by their common names; roles without a token are left out."""
    found = {
        role: next((name for name in names if name in special_tokens), None) for role, names in COMMON_NAMES.items()
    }
    return {role: name for role, name in found.items() if name is not None}


def check_roles(roles: Mapping[str, object], vocabulary: Collection[str]) -> dict[str, str]:
    """Return the given roles, refusing unknown roles and missing tokens."""
    checked: dict[str, str] = {}
    for role, token in roles.items():
        if role not in get_args(Role):
            raise InputError(unknown_name(role, get_args(Role), what="role of a special token"))
        if not isinstance(token, str) or token not in vocabulary:
            raise InputError(f"the {role} token {str(token)[:60]!r} is not in the vocabulary")
        checked[role] = token
    return checked
