"""The border to the `tokenizers` library: what it refuses, and what makes it panic, leaves here as one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import tokenizers

from sightline.errors import InputError
from sightline.text.strict_json import parse_object


def read_tokenizer(data: bytes) -> tokenizers.Tokenizer:
    """Build the library's tokenizer from the contents of a tokenizer.json."""
    entries = parse_object(data)
    check_merges(entries.get("model"))
    with refusing("this is not a tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        # Lengths are the batch's business; a file could ask for padding to any length.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        # Not stored in tokenizer.json: without it, "</s>" typed by a user would become the end of the text.
        tokenizer.encode_special_tokens = True
        tokenizer.encode("")  # a frame of tokens that do not exist shows itself now, not in use
    check_added_tokens(entries.get("added_tokens"), tokenizer)
    return tokenizer


def check_merges(model: object) -> None:
    """Refuse merges that make no token: the library panics over some of them (huggingface/tokenizers#2094)."""
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
            raise InputError(f"this is not a tokenizer: the merge {str(merge)[:60]!r} makes no token of the vocabulary")


def check_added_tokens(added: object, tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse ids that the library did not take over: it numbers added tokens anew when they leave a gap."""
    for token in added if isinstance(added, list) else []:
        name, wanted = entry(token, "content"), entry(token, "id")
        if (taken := tokenizer.token_to_id(str(name))) != wanted:
            raise InputError(f"this is not a tokenizer: {str(name)[:60]!r} would get {taken} instead of {wanted} as id")


def entry(mapping: object, key: str) -> object:
    """Return an entry of what may not even be a mapping."""
    return mapping.get(key) if isinstance(mapping, dict) else None


@contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """Turn whatever the library raises into an `InputError`: plain exceptions, and panics of its Rust code."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{sentence}: {str(error)[:200]}") from None


def require_unicode(text: str) -> None:
    """Refuse half of a surrogate pair, which is no character and has no bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start + 1:,} of the text is half of a surrogate pair (U+{ord(text[error.start]):04X}), "
            "which is not Unicode text: remove it or put U+FFFD in its place"
        ) from None
