"""Translators without a model, whose word alignment is known."""

from collections.abc import Callable

from sightline.pipelines.documents import read_document
from sightline.tracing import Link
from sightline.tracing.tokenized_text import word_spans

Translate = Callable[[str], tuple[str, list[Link]]]


def keep(text: str) -> tuple[str, list[Link]]:
    """Translate a text into itself."""
    return text, [Link(*span, *span, 1.0) for span in word_spans(text)]


def reverse(text: str) -> tuple[str, list[Link]]:
    """Write the words in capitals, the last one first."""
    result, links = "", []
    for start, end in reversed(word_spans(text)):
        result += " " if result else ""
        links.append(Link(start, end, len(result), len(result) + len(text[start:end].upper()), 1.0))
        result += text[start:end].upper()
    return result, links


def double(text: str) -> tuple[str, list[Link]]:
    """Write every word twice, the second time linked to nothing."""
    result, links = "", []
    for start, end in word_spans(text):
        result += " " if result else ""
        links.append(Link(start, end, len(result), len(result) + end - start, 0.7))
        result += f"{text[start:end]} {text[start:end]}"
    return result, links


def first(text: str) -> tuple[str, list[Link]]:
    """Translate everything by one word that is linked to nothing."""
    return ("x" if text else ""), []


TRANSLATORS: dict[str, Translate] = {"keep": keep, "reverse": reverse, "double": double, "first": first}


def translate(source: str, markup: str, translator: Translate = reverse) -> str:
    """Translate a document."""
    document = read_document(source, markup)
    return document.render([translator(text) for text in document.texts])[0]
