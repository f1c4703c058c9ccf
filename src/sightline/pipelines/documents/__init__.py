"""Documents: HTML, Markdown and subtitles, taken apart into texts to translate and put together again.

    blocks     a block of text with its inline tags, and where they stand in its translation
    html       pages and fragments
    markdown   CommonMark with tables
    srt        subtitles

A reader returns a `Document`: what must not change, verbatim, and blocks. Nothing here knows a model.
"""

from typing import Literal, get_args

from sightline.config import one_of
from sightline.errors import InputError
from sightline.pipelines.documents.blocks import Block, Document
from sightline.pipelines.documents.html import read_html
from sightline.pipelines.documents.markdown import read_markdown
from sightline.pipelines.documents.srt import read_srt

Markup = Literal["text", "html", "markdown", "srt"]
MARKUPS: tuple[str, ...] = get_args(Markup)
READERS = {"html": read_html, "markdown": read_markdown, "srt": read_srt}


def read_document(source: str, markup: str) -> Document:
    """Read a document in one of the `READERS`."""
    if markup not in READERS:
        raise InputError(f"{markup[:60]!r} is not known: it must be {one_of(MARKUPS)}", option="markup")
    return READERS[markup](source)


__all__ = ["MARKUPS", "READERS", "Block", "Document", "Markup", "read_document"]
