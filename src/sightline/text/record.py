"""One entry of a corpus as text, with the place it comes from."""

from typing import NamedTuple

from sightline.text.files import Place

Field = str | tuple[str, ...]
"""A text, or a list of them: the turns of a dialogue, the words of a tagged sentence."""


class Record(NamedTuple):
    """What one line (or document) of a corpus says."""

    fields: tuple[Field, ...]
    place: Place
    document: int = 0
    """Which document of a running text this is a part of, counted from 0."""
    ends: bool = True
    """Whether the document ends here."""
    key: str | None = None
    """What decides the side of a split, if that is not the first field."""


SOURCE_AND_TARGET = ("source", "target")
SOURCE_TARGET_LANGUAGE = ("source", "target", "language")
TEXT = ("text",)
TEXT_AND_LABEL = ("text", "label")
PAIR_AND_LABEL = ("text", "pair", "label")
TOKENS_AND_LABELS = ("tokens", "labels")
TURNS = ("turns",)

LISTS = frozenset({"tokens", "labels", "turns"})
"""Fields that are lists of texts."""
