"""A text as a list of ids, and back: the `tokenizers` library with a border around it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from sightline.errors import InputError
from sightline.text.display import shown
from sightline.text.library import read_tokenizer, refusing, require_unicode
from sightline.text.special import checked_roles, recognised_roles


class Tokenizer:
    """Turns text into ids and ids into text.

    For those that `train_tokenizer` makes, `decode(encode(text)) == text` for every text; those from elsewhere keep
    their own rules. The names of special tokens are plain text to `encode`, whoever types them.
    """

    def __init__(self, library: tokenizers.Tokenizer, *, roles: Mapping[str, object] | None = None) -> None:
        self._library: Any = library
        self._library.encode_special_tokens = True
        vocabulary: dict[str, int] = library.get_vocab(with_added_tokens=True)
        if not vocabulary:
            raise InputError("this tokenizer has no tokens")
        self.vocab_size: int = max(vocabulary.values()) + 1
        """One more than the largest id."""
        added = library.get_added_tokens_decoder()
        self._special: dict[int, str] = {id_: token.content for id_, token in added.items() if token.special}
        self._special_names = {name: id_ for id_, name in self._special.items()}
        names = self._special_names
        self.roles: dict[str, str] = recognised_roles(names) if roles is None else checked_roles(roles, vocabulary)
        self._role_ids = {role: vocabulary[token] for role, token in self.roles.items()}
        decoder = library.decoder
        self._byte_level = decoder is not None and decoder.decode(["Ġa"]) == " a"

    @classmethod
    def from_json(cls, data: str | bytes, *, roles: Mapping[str, object] | None = None) -> "Tokenizer":
        """Build a tokenizer from the contents of a tokenizer.json, ours or another's."""
        if isinstance(data, str):
            require_unicode(data)
            data = data.encode("utf-8")
        library = read_tokenizer(data)
        with refusing("this tokenizer cannot be used"):
            return cls(library, roles=roles)

    def to_json(self) -> str:
        """Return the contents for a tokenizer.json."""
        text: str = self._library.to_str(pretty=True)
        return text + "\n"

    def encode(self, text: str, *, framed: bool = False) -> list[int]:
        """Return the ids of a text; `framed` adds what the tokenizer puts around one, as BERT's [CLS] … [SEP]."""
        ids: list[int] = self._encoding(text, framed=framed).ids
        return ids

    def encode_batch(self, texts: Sequence[str], *, framed: bool = False) -> list[list[int]]:
        """Return what `encode` gives for each text, in less time."""
        for text in texts:
            require_unicode(text)
        with refusing("the tokenizer cannot take these texts"):
            encodings = self._library.encode_batch_fast(list(texts), add_special_tokens=framed)
        return [encoding.ids for encoding in encodings]

    def spans(self, text: str, *, framed: bool = False) -> list[tuple[int, int]]:
        """Return where in the text each id of `encode` comes from: start and end, in characters."""
        spans: list[tuple[int, int]] = self._encoding(text, framed=framed).offsets
        return spans

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text of ids; one without a token (a spare row of an embedding) adds nothing."""
        if not all(0 <= id_ < 1 << 32 for id_ in ids):
            raise InputError(f"{next(i for i in ids if not 0 <= i < 1 << 32)} is not a token's id")
        with refusing("the tokenizer cannot decode these ids"):
            text: str = self._library.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def decode_batch(self, batch: Iterable[Sequence[int]], *, skip_special: bool = True) -> list[str]:
        """Return what `decode` gives for each row."""
        return [self.decode(ids, skip_special=skip_special) for ids in batch]

    def token_text(self, id_: int) -> str:
        """Return a token as a person can read it, even if it is half a character."""
        if id_ in self._special:
            return self._special[id_]
        token = self._library.id_to_token(id_) if 0 <= id_ < self.vocab_size else None
        return f"<unused {id_}>" if token is None else shown(token, byte_level=self._byte_level)

    def _encoding(self, text: str, *, framed: bool) -> tokenizers.Encoding:
        require_unicode(text)
        with refusing("the tokenizer cannot take this text"):
            encoding: tokenizers.Encoding = self._library.encode(text, add_special_tokens=framed)
        return encoding

    def special_id(self, name: str) -> int | None:
        """Return the id of a special token by its name, or None where there is no such token."""
        return self._special_names.get(name)

    @property
    def special_ids(self) -> frozenset[int]:
        """Every id that is not text."""
        return frozenset(self._special)

    @property
    def pad_id(self) -> int | None:
        """What fills a short row."""
        return self._role_ids.get("pad")

    @property
    def start_id(self) -> int | None:
        """What stands before the first token written."""
        return self._role_ids.get("start")

    @property
    def end_id(self) -> int | None:
        """What says that the text is over."""
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
        """What stands for a word to be filled in."""
        return self._role_ids.get("mask")

    @property
    def unknown_id(self) -> int | None:
        """What foreign tokenizers give for what they cannot spell; ours spell everything."""
        return self._role_ids.get("unknown")
