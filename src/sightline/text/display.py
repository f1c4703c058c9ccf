"""Tokens as readable text: bytes that are only part of a character, and control characters, are escaped."""

import re

SUBWORD_PREFIX = "⁀"
"""Marks a piece inside a word, in our WordPiece; not part of the byte alphabet."""

BYTE_NAME = re.compile(r"<0x([0-9A-F]{2})>")


def byte_alphabet() -> dict[str, int]:
    """Return the byte of each character of GPT-2's byte-level alphabet: printable bytes stand for themselves."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_OF = byte_alphabet()


def display_token(token: str, *, byte_level: bool) -> str:
    r"""Return a token's text, with unprintable characters escaped, as \n, \x00 or \xe6."""
    text = token.removeprefix(SUBWORD_PREFIX)
    if byte_level and all(character in BYTE_OF for character in text):
        data = bytes(BYTE_OF[character] for character in text)
    elif match := BYTE_NAME.fullmatch(token):
        data = bytes([int(match[1], 16)])
    else:
        return escape(token)
    return escape(data.decode("utf-8", errors="backslashreplace"))


def escape(text: str) -> str:
    """Escape unprintable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
