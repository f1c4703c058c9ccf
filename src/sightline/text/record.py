"""One record of a corpus: its texts, with the file and line they come from."""

from typing import NamedTuple

from sightline.text.files import Location

Field = str | tuple[str, ...]
"""A text, or a list of them: the turns of a dialogue, the words of a tagged sentence."""


class Record(NamedTuple):
    """One line, document or chunk of a corpus."""

    fields: tuple[Field, ...]
    location: Location
    document: int = 0
    """Document number in running text, from 0."""
    ends: bool = True
    """Whether this is the last record of its document."""
    key: str | None = None
    """Split key, if not the first field."""


SOURCE_AND_TARGET = ("source", "target")
SOURCE_TARGET_LANGUAGE = ("source", "target", "language")
TEXT = ("text",)
TEXT_AND_LABEL = ("text", "label")
PAIR_AND_LABEL = ("text", "pair", "label")
TOKENS_AND_LABELS = ("tokens", "labels")
TURNS = ("turns",)

LISTS = frozenset({"tokens", "labels", "turns"})
"""Fields that are lists of texts."""
