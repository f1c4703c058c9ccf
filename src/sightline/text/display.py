"""Tokens as a person can read them: bytes that are only part of a character, and controls, are written out."""

import re

CONTINUES = "⁀"
"""Marks a piece within a word, in WordPiece of ours; no byte is written with it."""

BYTE_NAME = re.compile(r"<0x([0-9A-F]{2})>")


def byte_alphabet() -> dict[str, int]:
    """Return the byte behind each character of byte-level BPE (GPT-2): printable ones stand for themselves."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTES = byte_alphabet()


def shown(token: str, *, byte_level: bool) -> str:
    r"""Return a token's text; what is no printable character appears as \n, \x00 or \xe6."""
    spelled = token.removeprefix(CONTINUES)
    if byte_level and all(character in BYTES for character in spelled):
        data = bytes(BYTES[character] for character in spelled)
    elif match := BYTE_NAME.fullmatch(token):
        data = bytes([int(match[1], 16)])
    else:
        return printable(token)
    return printable(data.decode("utf-8", errors="backslashreplace"))


def printable(text: str) -> str:
    """Write out characters that would not show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
