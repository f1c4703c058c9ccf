"""The tokenizer: a safe wrapper around the `tokenizers` library that knows the roles of special tokens."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import tokenizers

from sightline.config import unknown_name
from sightline.errors import InputError
from sightline.storage import parse_object

SEQUENCE_TOKENS = ("<pad>", "<s>", "</s>")
"""For generative models: padding, start and end of a sequence."""

MASKING_TOKENS = ("<pad>", "[CLS]", "[SEP]", "[MASK]")
"""For masked language models: padding, BERT's [CLS] and [SEP], the mask."""


def tag_token(language: str) -> str:
    """Return the target-language tag that a multilingual source begins with: "<2de>"."""
    return f"<2{language}>"


class Tokenizer:
    """Turns text into ids and ids into text.

    Tokenizers of `train_tokenizer` guarantee `decode(encode(text)) == text` for every text; imported ones keep their
    own rules. `encode` treats the names of special tokens as plain text.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, roles: Mapping[str, object] | None = None) -> None:
        self._backend: Any = backend
        self._backend.encode_special_tokens = True
        vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        if not vocabulary:
            raise InputError("this tokenizer has no tokens")
        self.vocab_size: int = max(vocabulary.values()) + 1
        """Largest id + 1."""
        added = backend.get_added_tokens_decoder()
        self._special: dict[int, str] = {id_: token.content for id_, token in added.items() if token.special}
        self._special_names = {name: id_ for id_, name in self._special.items()}
        names = self._special_names
        self.roles: dict[str, str] = recognize_roles(names) if roles is None else check_roles(roles, vocabulary)
        self._role_ids = {role: vocabulary[token] for role, token in self.roles.items()}
        decoder = backend.decoder
        self._byte_level = decoder is not None and decoder.decode(["aĠb"]) == "a b"

    @classmethod
    def from_json(cls, data: str | bytes, *, roles: Mapping[str, object] | None = None) -> "Tokenizer":
        """Build a tokenizer from the contents of any tokenizer.json."""
        if isinstance(data, str):
            require_unicode(data)
            data = data.encode("utf-8")
        backend = build_backend(data)
        with translate_errors("this tokenizer cannot be used"):
            return cls(backend, roles=roles)

    def to_json(self) -> str:
        """Return the contents of a tokenizer.json."""
        text: str = self._backend.to_str(pretty=True)
        return text + "\n"

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of a text, with `add_special_tokens` those of its template too, as BERT's [CLS] … [SEP]."""
        ids: list[int] = self._encoding(text, add_special_tokens=add_special_tokens).ids
        return ids

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool = False) -> list[list[int]]:
        """Encode several texts at once, which is faster."""
        for text in texts:
            require_unicode(text)
        with translate_errors("the tokenizer cannot encode these texts"):
            encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in encodings]

    def offsets(self, text: str, *, add_special_tokens: bool = False) -> list[tuple[int, int]]:
        """Return the span of the text each id of `encode` comes from: start and end, in characters."""
        return self.encode_with_offsets(text, add_special_tokens=add_special_tokens)[1]

    def encode_with_offsets(
        self, text: str, *, add_special_tokens: bool = False
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of `encode` and their `offsets`, in one pass over the text."""
        encoding = self._encoding(text, add_special_tokens=add_special_tokens)
        return encoding.ids, encoding.offsets

    def _encoding(self, text: str, *, add_special_tokens: bool) -> tokenizers.Encoding:
        require_unicode(text)
        with translate_errors("the tokenizer cannot encode this text"):
            encoding: tokenizers.Encoding = self._backend.encode(text, add_special_tokens=add_special_tokens)
        return encoding

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text of ids; ids without a token (spare rows of an embedding) are ignored."""
        if not all(0 <= id_ < 1 << 32 for id_ in ids):
            raise InputError(f"{next(i for i in ids if not 0 <= i < 1 << 32)} is not a token id")
        with translate_errors("the tokenizer cannot decode these ids"):
            text: str = self._backend.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def decode_batch(self, batch: Iterable[Sequence[int]], *, skip_special: bool = True) -> list[str]:
        """Decode several rows of ids."""
        return [self.decode(ids, skip_special=skip_special) for ids in batch]

    def token_text(self, id_: int) -> str:
        """Return a token as readable text, even if it is only part of a character."""
        if id_ in self._special:
            return self._special[id_]
        token = self._backend.id_to_token(id_) if 0 <= id_ < self.vocab_size else None
        return f"<unused {id_}>" if token is None else display_token(token, byte_level=self._byte_level)

    def special_id(self, name: str) -> int | None:
        """Return the id of a special token by its name, or None if there is no such token."""
        return self._special_names.get(name)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of all special tokens."""
        return frozenset(self._special)

    @property
    def pad_id(self) -> int | None:
        """The padding token."""
        return self._role_ids.get("pad")

    @property
    def start_id(self) -> int | None:
        """The start token (BOS)."""
        return self._role_ids.get("start")

    @property
    def end_id(self) -> int | None:
        """The end token (EOS)."""
        return self._role_ids.get("end")

    @property
    def cls_id(self) -> int | None:
        """BERT's [CLS]."""
        return self._role_ids.get("cls")

    @property
    def sep_id(self) -> int | None:
        """BERT's [SEP]."""
        return self._role_ids.get("sep")

    @property
    def mask_id(self) -> int | None:
        """The mask token."""
        return self._role_ids.get("mask")

    @property
    def unknown_id(self) -> int | None:
        """The unknown token of imported tokenizers; ours can encode everything."""
        return self._role_ids.get("unknown")


Role = Literal["pad", "start", "end", "cls", "sep", "mask", "unknown"]

COMMON_NAMES: dict[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>"),
    "start": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
    "unknown": ("[UNK]", "<unk>"),
}
"""Names by which roles are recognized: those of our own tokenizers, which are fixed, and common ones of others.

The config.json of a model folder lists the token of every role, for tokenizers with uncommon names.
"""


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


def build_backend(data: bytes) -> tokenizers.Tokenizer:
    """Build the backend tokenizer from the contents of a tokenizer.json."""
    entries = parse_object(data)
    check_merges(entries.get("model"))
    with translate_errors("this is not a tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        # Batches pad and truncate; a file could ask for padding to any length.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        # Not stored in tokenizer.json: without it, "</s>" typed by a user would become the end token.
        tokenizer.encode_special_tokens = True
        tokenizer.encode("")  # a template with missing special tokens fails here, not later
    check_added_tokens(entries.get("added_tokens"), tokenizer)
    return tokenizer


def check_merges(model: object) -> None:
    """Refuse merges that form no token: some make the library panic (huggingface/tokenizers#2094)."""
    merges, vocabulary = get_entry(model, "merges"), get_entry(model, "vocab")
    if not isinstance(merges, list) or not isinstance(vocabulary, dict):
        return
    prefix = get_entry(model, "continuing_subword_prefix") or ""
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise InputError(f"this is not a tokenizer: {str(merge)[:60]!r} is not a merge of two tokens")
        first, second = parts
        if not isinstance(prefix, str) or len(second) < len(prefix) or first + second[len(prefix) :] not in vocabulary:
            raise InputError(f"this is not a tokenizer: the merge {str(merge)[:60]!r} forms no token of the vocabulary")


def check_added_tokens(added: object, tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse added tokens whose ids the library changed: it renumbers them if they leave a gap."""
    for token in added if isinstance(added, list) else []:
        name, expected = get_entry(token, "content"), get_entry(token, "id")
        if (found := tokenizer.token_to_id(str(name))) != expected:
            raise InputError(
                f"this is not a tokenizer: {str(name)[:60]!r} would get the id {found} instead of {expected}"
            )


def get_entry(mapping: object, key: str) -> object:
    """Return an entry of a value that may not be a mapping."""
    return mapping.get(key) if isinstance(mapping, dict) else None


@contextmanager
def translate_errors(message: str) -> Iterator[None]:
    """Turn exceptions of the library, and panics of its Rust code, into an `InputError`."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{message}: {str(error)[:200]}") from None


def require_unicode(text: str) -> None:
    """Refuse lone surrogates, which are not characters and cannot be encoded as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start + 1:,} of the text is a lone surrogate (U+{ord(text[error.start]):04X}), "
            "which is not valid Unicode text: remove it or replace it by U+FFFD"
        ) from None


SUBWORD_PREFIX = "⁀"
"""Marks a piece inside a word, in our WordPiece; not part of the byte alphabet."""

BYTE_NAME = re.compile(r"<0x([0-9A-F]{2})>")


def byte_alphabet() -> dict[str, int]:
    """Return the byte of each character of GPT-2's byte-level alphabet: printable bytes stand for themselves."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_VALUES = byte_alphabet()


def display_token(token: str, *, byte_level: bool) -> str:
    r"""Return a token's text, with unprintable characters escaped, as \n, \x00 or \xe6."""
    text = token.removeprefix(SUBWORD_PREFIX)
    if byte_level and all(character in BYTE_VALUES for character in text):
        data = bytes(BYTE_VALUES[character] for character in text)
    elif match := BYTE_NAME.fullmatch(token):
        data = bytes([int(match[1], 16)])
    else:
        return escape_unprintable(token)
    return escape_unprintable(data.decode("utf-8", errors="backslashreplace"))


def escape_unprintable(text: str) -> str:
    """Escape unprintable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
