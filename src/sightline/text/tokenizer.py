"""Encode text as ids and decode ids: a safe wrapper around the `tokenizers` library."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from sightline.errors import InputError
from sightline.text.display import display_token
from sightline.text.special import check_roles, recognize_roles
from sightline.text.tokenizers_backend import read_tokenizer, require_unicode, translate_errors


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
        self._byte_level = decoder is not None and decoder.decode(["Ġa"]) == " a"

    @classmethod
    def from_json(cls, data: str | bytes, *, roles: Mapping[str, object] | None = None) -> "Tokenizer":
        """Build a tokenizer from the contents of any tokenizer.json."""
        if isinstance(data, str):
            require_unicode(data)
            data = data.encode("utf-8")
        backend = read_tokenizer(data)
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
        offsets: list[tuple[int, int]] = self._encoding(text, add_special_tokens=add_special_tokens).offsets
        return offsets

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

    def _encoding(self, text: str, *, add_special_tokens: bool) -> tokenizers.Encoding:
        require_unicode(text)
        with translate_errors("the tokenizer cannot encode this text"):
            encoding: tokenizers.Encoding = self._backend.encode(text, add_special_tokens=add_special_tokens)
        return encoding

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
