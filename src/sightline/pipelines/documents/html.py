"""HTML: text between block tags is translated; scripts, code, addresses, attributes, comments and the rest stay.

The parser of the standard library tells tags from text, also in pages that are not well-formed; every character that
is not text to translate is written as it was. So is a template: what it prints moves with the words it stood next to,
and a statement, such as `{% if %}`, ends a text, so that statements keep their order.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Literal

from sightline.data.sentences import words
from sightline.pipelines.documents.blocks import (
    TEMPLATE,
    Block,
    Document,
    Inline,
    Tag,
    Void,
    map_texts,
    nest,
    protect_addresses,
    write_source,
)

INLINE = words("""
    a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span strike strong sub sup
    time tt u var
    """)
"""Elements within a sentence; all others but `VOIDS` and `PROTECTED` end it."""
VOIDS = frozenset(["img", "wbr"])
PROTECTED = words("script style pre code kbd samp textarea math svg template object noscript iframe")
INLINE_PROTECTED = frozenset(["code", "kbd", "samp", "math", "svg"])
NEVER_CLOSED = words("area base br col embed hr img input link meta param source track wbr")
ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);?")
TAG_START = re.compile(r"<[a-zA-Z/!?]")
SECTION = re.compile(r"<!\[(?:temp|cdata|ignore|include|rcdata|if|else|endif)\s*(?![\w.-])", re.IGNORECASE)
"""Marked sections that the parser knows; it fails at others."""

TEMPLATE_OR_LINES = re.compile(TEMPLATE.pattern, re.DOTALL)
"""A template, which may go on in the next line."""
STATEMENT = re.compile(r"\{%|<%(?!=)|\{\{[{~-]?\s*(?:[#/^<%]|(?:if|else|end|range|with|block|define)\b)")
"""The beginning of a template that prints nothing itself, as Jinja, ERB, Handlebars, Go and Hugo write it."""
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
WHOLE_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
HIDDEN = re.compile(rf"{TAG_START.pattern}|-->")

Kind = Literal["text", "open", "close", "other"]


@dataclass(frozen=True)
class Token:
    """A piece of the source: text, a tag, or something else, such as a comment."""

    kind: Kind
    start: int
    name: str = ""
    keep: bool = False
    """Whether an element must not be translated: translate="no"."""


class Tokenizer(HTMLParser):
    """Finds where the tags and texts of a page begin."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self.lines = [0, *(match.end() for match in re.finditer("\n", source))]
        self.has_end = {"comment": True, "section": True}
        """Whether there may still be the end of one: the parser would look for it up to the end, each time anew."""
        end = find_unclosed(source)
        self.feed(source[:end])
        self.close()
        if end < len(source):
            self.tokens.append(Token("other", end))

    def add(self, kind: Kind, name: str = "", *, keep: bool = False) -> None:
        """Add a token at the place of the parser."""
        line, column = self.getpos()
        self.tokens.append(Token(kind, self.lines[line - 1] + column, name, keep))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add a start tag."""
        values = dict(attrs)
        keep = values.get("translate") == "no" or "notranslate" in (values.get("class") or "").split()
        self.add("open", tag, keep=keep)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """Add a tag such as <br/>: only void elements have no end tag."""
        self.add("open", tag) if tag in NEVER_CLOSED else self.add("other", tag)

    def handle_endtag(self, tag: str) -> None:
        """Add an end tag."""
        self.add("close", tag)

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.add("text" if data else "other")

    def handle_entityref(self, name: str) -> None:  # noqa: ARG002
        """Add an entity as text."""
        self.add("text")

    handle_charref = handle_entityref

    def handle_comment(self, data: str) -> None:  # noqa: ARG002
        """Add a comment, an instruction or a CDATA section."""
        self.add("other")

    handle_pi = unknown_decl = handle_comment

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        """Add the declaration of the document type."""
        self.add("other")

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Return where a comment ends; -1 if it does not."""
        end = super().parse_comment(i, report) if self.has_end["comment"] else -1
        self.has_end["comment"] = end >= 0
        return end

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Return where a CDATA section ends, or what Office writes, such as `<![if x]>`; -1 if it does not."""
        if not SECTION.match(self.rawdata, i):
            return self.parse_bogus_comment(i, report)
        end = super().parse_marked_section(i, report) if self.has_end["section"] else -1
        self.has_end["section"] = end >= 0
        return end


def find_unclosed(source: str) -> int:
    """Return where a tag begins that is never closed; the end of the source if there is none.

    The parser would read from each such tag to the end, in time that grows with the square of their number.
    """
    match = TAG_START.search(source, source.rfind(">") + 1)
    return match.start() if match else len(source)


def find_templates(source: str) -> Iterator[re.Match[str]]:
    """Yield the templates that hide no part of the page: a tag in one is whole and quoted."""
    at = 0
    while match := TEMPLATE_OR_LINES.search(source, at):
        rest = QUOTED.sub(lambda quoted: WHOLE_TAG.sub("", quoted[0]), match[0])
        if HIDDEN.search(rest):
            at = match.start() + 1
        else:
            yield match
            at = match.end()


def mask_templates(source: str) -> str:
    """Return a page with letters in place of templates, in which the parser would look for tags and entities."""
    pieces, at = list[str](), 0
    for match in find_templates(source):
        pieces += [source[at : match.start()], "x" * len(match[0])]
        at = match.end()
    return "".join([*pieces, source[at:]])


def tokenize(source: str) -> Iterator[tuple[Token, str]]:
    """Yield every token with its characters; together they are the source."""
    masked = mask_templates(source)
    tokens = [token for token in Tokenizer(masked).tokens if token.start <= len(source)]
    if not tokens or tokens[0].start > 0:
        tokens.insert(0, Token("other", 0))
    ends = [*(token.start for token in tokens[1:]), len(source)]
    for token, end in zip(tokens, ends, strict=True):
        if end > token.start:
            # Text with what could be read as the beginning of a tag is none to change.
            is_odd = token.kind == "text" and TAG_START.search(masked, token.start, end)
            yield (Token("other", token.start) if is_odd else token), source[token.start : end]


def read_html(source: str) -> Document:
    """Read a page or a fragment."""
    parts: list[str | Block] = []
    run: list[str | Void | Tag] = []

    def flush() -> None:
        parts.extend(build_blocks(run))
        run.clear()

    tokens = iter(tokenize(source))
    for token, raw in tokens:
        if token.kind == "open" and (token.name in PROTECTED or token.keep) and token.name not in NEVER_CLOSED:
            whole = raw + read_element(tokens, token.name)
            if token.name in INLINE_PROTECTED or token.name in INLINE:
                run.append(Void(whole))
                continue
            flush()
            parts.append(whole)
        elif token.kind == "text":
            run.append(raw)
        elif token.name in INLINE and token.kind in ("open", "close"):
            run.append(Tag(token.name, raw, token.kind == "close"))
        elif (token.name in VOIDS and token.kind == "open") or (not token.name and raw.startswith("<!--")):
            run.append(Void(raw))
        else:
            flush()
            parts.append(raw)
    flush()
    return Document(tuple(parts))


def read_element(tokens: Iterator[tuple[Token, str]], name: str) -> str:
    """Return the source of an element up to its end tag, or of all that is left."""
    found, depth = [], 1
    for token, raw in tokens:
        found.append(raw)
        if token.name == name:
            depth += {"open": 1, "close": -1}.get(token.kind, 0)
        if not depth:
            break
    return "".join(found)


def build_blocks(run: Sequence[str | Void | Tag]) -> list[str | Block]:
    """Return the blocks of text, voids and inline tags, and the tags that stand between blocks."""
    results: list[str | Block] = []
    for content in nest(split_templates(join_texts(run))):
        if isinstance(content, str):
            results.append(content)
        elif content:
            results.append(build_block(content))
    return results


def join_texts(run: Sequence[str | Void | Tag]) -> list[str | Void | Tag]:
    """Join texts that follow each other: the parser gives entities one by one."""
    results: list[str | Void | Tag] = []
    for token in run:
        if isinstance(token, str) and results and isinstance(results[-1], str):
            results[-1] += token
        else:
            results.append(token)
    return results


def split_templates(tokens: Sequence[str | Void | Tag]) -> list[str | Void | Tag]:
    """Return the tokens with the templates in texts as voids, and statements as tags that have no counterpart."""
    results: list[str | Void | Tag] = []
    for token in tokens:
        if not isinstance(token, str):
            results.append(token)
            continue
        at = 0
        for match in find_templates(token):
            text, at = token[at : match.start()], match.end()
            results += [text] if text else []
            if STATEMENT.match(match[0]):
                results.append(Tag("", match[0], is_close=True))
            elif results and isinstance(last := results[-1], Void):
                results[-1] = Void(last.raw + match[0])  # with no space between them
            else:
                results.append(Void(match[0]))
        results += [token[at:]] if at < len(token) else []
    return results


def build_block(content: Sequence[Inline]) -> Block:
    """Return a block of inline content as the source has it."""
    source = write_source(content)
    inner = source.strip(" \t\n\r\f")
    at = source.find(inner)
    entities = {html.unescape(match[0]): match[0] for match in ENTITY.finditer(source)}
    named = {ord(char): raw for char, raw in entities.items() if len(char) == 1 and char != raw}
    table = {**named, ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
    return Block(
        map_texts(content, lambda text: protect_addresses(html.unescape(text), escape=html.escape)),
        inner,
        before=source[:at],
        after=source[at + len(inner) :],
        escape=lambda text: text.translate(table),
    )
