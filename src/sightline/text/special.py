"""The tokens that are not text, and the parts they play.

A role is kept as the token's name. Ours have fixed names, so tokenizer.json alone tells them; in a tokenizer from
elsewhere they are found by the names people use. A model folder's config.json names them all, for those with others.
"""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from sightline.errors import InputError
from sightline.settings import unknown_name

Role = Literal["pad", "start", "end", "cls", "sep", "mask", "unknown"]

SEQUENCE_TOKENS = ("<pad>", "<s>", "</s>")
"""For models that write: padding, the start and the end of a sequence."""

MASKING_TOKENS = ("<pad>", "[CLS]", "[SEP]", "[MASK]")
"""For models that fill in words: padding, BERT's frame, the mask."""

USUAL_NAMES: dict[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>"),
    "start": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
    "unknown": ("[UNK]", "<unk>"),
}


def tag_token(language: str) -> str:
    """Return the special token that stands before a source to be translated into a language: "<2de>"."""
    return f"<2{language}>"


def recognised_roles(special_tokens: Collection[str]) -> dict[str, str]:
    """Find the roles of tokens by their usual names; a role nobody plays is left out."""
    found = {
        role: next((name for name in names if name in special_tokens), None) for role, names in USUAL_NAMES.items()
    }
    return {role: name for role, name in found.items() if name is not None}


def checked_roles(roles: Mapping[str, object], vocabulary: Collection[str]) -> dict[str, str]:
    """Return roles that someone wrote down, refusing unknown ones and tokens that do not exist."""
    checked: dict[str, str] = {}
    for role, token in roles.items():
        if role not in get_args(Role):
            raise InputError(unknown_name(role, get_args(Role), what="role of a special token"))
        if not isinstance(token, str) or token not in vocabulary:
            raise InputError(f"the {role} token {str(token)[:60]!r} is not in the vocabulary")
        checked[role] = token
    return checked
