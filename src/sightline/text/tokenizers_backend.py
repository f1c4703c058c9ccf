"""Interface to the `tokenizers` library: its errors and panics become one-line messages."""

from collections.abc import Iterator
from contextlib import contextmanager

import tokenizers

from sightline.errors import InputError
from sightline.storage import parse_object


def read_tokenizer(data: bytes) -> tokenizers.Tokenizer:
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
    merges, vocabulary = entry(model, "merges"), entry(model, "vocab")
    if not isinstance(merges, list) or not isinstance(vocabulary, dict):
        return
    prefix = entry(model, "continuing_subword_prefix") or ""
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
        name, expected = entry(token, "content"), entry(token, "id")
        if (found := tokenizer.token_to_id(str(name))) != expected:
            raise InputError(
                f"this is not a tokenizer: {str(name)[:60]!r} would get the id {found} instead of {expected}"
            )


def entry(mapping: object, key: str) -> object:
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
