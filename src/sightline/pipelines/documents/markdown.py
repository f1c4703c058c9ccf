r"""Markdown: CommonMark with tables and strikethrough; lines stay lines, and code, addresses and HTML stay as they are.

So do footnote marks, math, templates, emoji and other marks that GitHub and site generators add to CommonMark (`KEPT`).
markdown-it finds the blocks. Inline markup is found here by CommonMark's rules, as its place in the source is needed; a
block is translated only if markdown-it sees the same markup in it, before and after. Characters that would be markup
are escaped with a backslash.
"""

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.reference import reference
from markdown_it.rules_inline import StateInline

from sightline.pipelines.documents.blocks import (
    TEMPLATE,
    Block,
    Break,
    Document,
    Element,
    Inline,
    Tag,
    Void,
    is_punctuation,
    map_texts,
    nest,
    protect_addresses,
    write_source,
)
from sightline.pipelines.documents.html import INLINE, read_html

LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
"""A line as markdown-it counts them: `\r` alone ends one, too."""
FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*(?:\r\n?|\n).*?[\r\n](?:\1|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.DOTALL)
PIPE = re.compile(r"((?<!\\)\|)")
CONTAINER = re.compile(r"[ \t>]*")
HARD_BREAK = re.compile(r"(?: {2,}|\\)\r?\Z")
BLOCK_START = re.compile(r"[-+*>#=|~`:]|\d+[.)]|<|\[|!!!|\$\$|\{%|\s|\Z")
"""What a line of a paragraph must not begin with, lest it become something else."""
TASK = re.compile(r"\[[ xX]\](?=\s)")
ATTRIBUTES = r"\{:?[ \t]{0,9}[#.]\w[^{}\r\n]{0,300}\}"  # {#id .class}
KEPT_FORMS = (
    r"\[\^[^\s\[\]\\`<$]{1,100}\](?!\()",  # [^1], a footnote
    ATTRIBUTES,
    r"(?<![\w:]):(?:[a-z0-9_-]{1,50}|\+1):(?![\w:])",  # :smile:
    r"\$`[^`\r\n]{1,300}`\$",
    r"(?<![\w$])\$\$(?![\s$])[^$\r\n]{1,300}\$\$(?![\w$])",
    # $x_1 + y$, but not "$5 and $6" or "$5 or 6$": several words, one of two letters, are math only beside a TeX sign.
    r"(?<![\w$])\$(?![\s$])"
    r"(?!(?=[^$\r\n\\^_={}]{0,300}[ \t])[^$\r\n\\^_={}]{0,300}?[^\W\d_]{2}[^$\r\n\\^_={}]{0,300}\$)"
    r"[^$\r\n]{0,299}[^$\s\\]\$(?![\w$]|\{[a-zA-Z_])",
    TEMPLATE.pattern,
)
KEPT = re.compile("|".join(KEPT_FORMS))
"""What is not of CommonMark and not translated. The lengths bound the time that beginnings without an end take."""
KEPT_LINE = re.compile(rf":::.*|!!!.*|(?>(?:{ATTRIBUTES}|{TEMPLATE.pattern})\s*)++")
"""Lines that begin or end a container, or that have nothing but templates and attributes."""
FOOTNOTE = re.compile(r"\[\^[^\s\[\]]+\]:[ \t]*")
ALERT = re.compile(r"\[![a-zA-Z]+\][-+]?(?![\[(:])[ \t]*")
SPECIAL = re.compile(rf"[\\`*\[\]<]|(?<![^\W_])_|_(?![^\W_])|~~|&(?=[#\w]+;)|!(?=\[)|(?={KEPT.pattern})[{{:$]")


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """Return the parser."""
    found = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    found.block.ruler.at("reference", parse_reference)
    interrupts = ["paragraph", "reference", "blockquote", "list"]
    found.block.ruler.before("reference", "footnote", parse_footnote, {"alt": interrupts})
    found.inline.ruler.before("text", "kept", parse_kept)
    return found


FOOTNOTE_INDENT = 4
"""Columns by which the later paragraphs of a footnote are indented."""


def parse_footnote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a footnote such as `[^1]: Yes`, as a rule of markdown-it: it holds blocks, as the item of a list does."""
    match = FOOTNOTE.match(state.src, state.bMarks[start] + state.tShift[start], state.eMarks[start])
    if not match or state.is_code_block(start):
        return False
    if silent:
        return True
    line = state.bMarks[start], state.tShift[start], state.sCount[start]
    state.push("footnote_open", "", 1)
    state.blkIndent += FOOTNOTE_INDENT
    state.bMarks[start], state.tShift[start], state.sCount[start] = match.end(), 0, state.blkIndent
    state.md.block.tokenize(state, start, end)
    state.bMarks[start], state.tShift[start], state.sCount[start] = line
    state.blkIndent -= FOOTNOTE_INDENT
    state.push("footnote_close", "", -1)
    return True


def parse_reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse the definition of a link, as a rule of markdown-it; what looks like a footnote is none."""
    at = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", at) and reference(state, start, end, silent)


def parse_kept(state: StateInline, silent: bool) -> bool:
    """Parse what is `KEPT`, as a rule of markdown-it."""
    match = KEPT.match(state.src, state.pos, state.posMax)
    # When markdown-it only looks for the end of a link, a footnote is brackets within brackets.
    if not match or (silent and match[0][0] == "["):
        return False
    if not silent:
        state.push("kept", "", 0).content = match[0]
    state.pos = match.end()
    return True


def read_markdown(source: str) -> Document:
    """Read a document."""
    front = FRONT_MATTER.match(source)
    head = front[0] if front else ""
    body = source[len(head) :]
    lines = LINE.findall(body)
    env: dict[str, Any] = {}
    parts: list[str | Block] = [head]
    notes: list[str] = []
    math = find_math_lines(lines)
    at = 0
    for kind, start, end, content in find_regions(parser().parse(body, env)):
        if start < at or end > len(lines):
            notes.append(describe_lost(content))
            continue
        parts += lines[at:start]
        if kind == "html":
            before, opening, rest = "".join(lines[start:end]).partition("<")
            parts += [before, *read_html(opening + rest).parts]
        elif kind == "table":
            parts += [part for line in lines[start:end] for part in read_row(line, env)]
        elif places := find_texts(lines[start:end], content.split("\n")):
            texts = [place.keep() if start + number in math else place for number, place in enumerate(places)]
            parts += [*read_lines(texts, env), *lines[start + len(places) : end]]
        else:
            parts += lines[start:end]
            notes.append(describe_lost(content))
        at = end
    return Document((*parts, *lines[at:]), tuple(notes))


def describe_lost(content: str) -> str:
    """Return the warning that a text was not found in the lines of the document."""
    return f"this part was left as it is, as its lines were not found in the document: {content[:60]!r}"


def find_math_lines(lines: Sequence[str]) -> set[int]:
    """Return the lines of formulas that begin and end with `$$` on different lines, with no blank line between."""
    found: set[int] = set()
    start: int | None = None
    for number, line in enumerate(lines):
        text = line.strip(" \t\r\n>")
        if not text:
            start = None
        elif text.count("$$") != 1:
            continue
        elif start is not None:
            found.update(range(start, number + 1))
            start = None
        elif text.startswith("$$"):
            start = number
    return found


def find_regions(tokens: Sequence[Any]) -> Iterator[tuple[str, int, int, str]]:
    """Yield what is to be translated: its kind, its lines, and its text without what quotes and lists add."""
    table_end = 0
    for token in tokens:
        if not token.map:
            continue
        start, end = token.map
        if token.type == "table_open":
            table_end = end
            yield "table", start, end, ""
        elif token.type == "html_block":
            yield "html", start, end, ""
        elif token.type == "inline" and start >= table_end:
            yield "text", start, end, token.content


def read_row(line: str, env: Mapping[str, Any]) -> Iterator[str | Block]:
    """Yield the cells of a table's row, and the bars between them."""
    container = CONTAINER.match(line)
    prefix = container[0] if container else ""
    yield prefix
    for piece in PIPE.split(line[len(prefix) :]):
        inner = piece.strip()
        if not inner or inner == "|":
            yield piece
            continue
        start = piece.find(inner)
        yield piece[:start]
        yield from build_blocks([inner], [], env, in_table=True)
        yield piece[start + len(inner) :]


@dataclass(frozen=True)
class Place:
    """The text of a line, and what stands before and after it; a line without text has only what stands before."""

    before: str
    text: str
    after: str
    begins: bool = False
    """Whether a new text begins here."""
    ends: bool = False
    """Whether its text goes on in no other line."""

    def keep(self) -> "Place":
        """Return a line of which nothing is translated."""
        return Place(self.before + self.text + self.after, "", "", begins=True, ends=True)


def find_texts(lines: Sequence[str], contents: Sequence[str]) -> list[Place]:
    """Return the places of a paragraph's or heading's texts in its lines; none if one is not found."""
    places: list[Place] = []
    for number, (line, content) in enumerate(zip(lines, contents, strict=False)):
        is_broken = HARD_BREAK.search(line.rstrip("\n")) is not None
        text = content.strip().removesuffix("\\") if is_broken else content.strip()
        at = line.replace("\0", "\ufffd").rfind(text)  # markdown-it has replaced them, too
        if at < 0:
            return []
        alert = ALERT.match(text) if not number else None
        start, end = at + (alert.end() if alert else 0), at + len(text)
        place = Place(line[:start], line[start:end], line[end:], ends=is_broken or alert is not None)
        places.append(place.keep() if start == end or KEPT_LINE.fullmatch(text) else place)
    return places


def read_lines(places: Sequence[Place], env: Mapping[str, Any]) -> list[str | Block]:
    """Return the blocks of lines; what stands before and after their text stays."""
    parts: list[str | Block] = []
    group: list[str] = []
    breaks: list[str] = []
    for place, following in zip(places, [*places[1:], None], strict=True):
        if not group:
            parts.append(place.before)
        group.append(place.text)
        if following is None or place.ends or following.begins:
            parts += [*build_blocks(group, breaks, env), place.after]
            group, breaks = [], []
        else:
            breaks.append(place.after + following.before)
    return parts


def build_blocks(
    lines: Sequence[str], breaks: Sequence[str], env: Mapping[str, Any], *, in_table: bool = False
) -> Iterator[str | Block]:
    """Yield the blocks of lines that are one text: one, unless tags in it have no counterpart."""
    text = "\n".join(lines)
    tokens = scan(text, env)
    same = Counter(name for name in map(tag_name, tokens) if name) == count_markup(text, env)
    rest = list(breaks)
    for content in nest(tokens):
        if isinstance(content, str):
            yield content
            continue
        source = write_source(content)
        inner = source.strip()
        if not inner:
            yield from restore_breaks(source, rest)
            continue
        start = source.find(inner)
        yield from restore_breaks(source[:start], rest)
        n_breaks = inner.count("\n")
        own, rest = rest[:n_breaks], rest[n_breaks:]
        yield build_block(content, inner, own, env, is_known=same, in_table=in_table)
        yield from restore_breaks(source[start + len(inner) :], rest)


def restore_breaks(space: str, breaks: list[str]) -> Iterator[str]:
    """Yield white space with the line breaks of the document in place of plain ones."""
    for piece in re.split("(\n)", space):
        yield breaks.pop(0) if piece == "\n" else piece


def build_block(
    content: Sequence[Inline],
    inner: str,
    breaks: Sequence[str],
    env: Mapping[str, Any],
    *,
    is_known: bool,
    in_table: bool,
) -> Block:
    """Return a block of inline content."""
    pieces = inner.split("\n")
    as_written = "".join(piece + raw for piece, raw in zip(pieces, [*breaks, ""], strict=True))
    signature = find_signature(inner, env, is_cell=in_table)
    ends = accumulate(len(piece) + 1 for piece in pieces[: len(breaks)])
    before = write_source(content).partition(inner)[0].count("\n")
    moves = list(find_breaks(content))[before : before + len(breaks)]
    placed = [Break(end / len(inner), raw) for end, raw, is_free in zip(ends, breaks, moves, strict=True) if is_free]

    def accepts(rendered: str) -> bool:
        plain = replace_breaks(rendered, [one.raw for one in placed])
        return is_known and find_signature(plain, env, is_cell=in_table) == signature

    return Block(
        map_texts(content, read_text),
        as_written,
        escape=partial(escape, in_table=in_table),
        finish=keep_inline,
        accepts=accepts,
        breaks=tuple(placed),
        may_break=lambda following: not BLOCK_START.match(following),
    )


def find_breaks(content: Iterable[Inline]) -> Iterator[bool]:
    """Yield for each line break of inline content whether it is in text: code and tags keep theirs."""
    for child in content:
        if isinstance(child, Element):
            yield from [False] * child.open.count("\n")
            yield from find_breaks(child.children)
            yield from [False] * child.close.count("\n")
        else:
            yield from [isinstance(child, str)] * (child if isinstance(child, str) else child.raw).count("\n")


def replace_breaks(text: str, breaks: Sequence[str]) -> str:
    """Return a text with plain line breaks in place of the document's, of which the last may be missing."""
    pieces, at = list[str](), 0
    for raw in breaks:
        place = text.find(raw, at)
        if place < 0:
            break
        pieces += [text[at:place], "\n"]
        at = place + len(raw)
    return "".join([*pieces, text[at:]])


def find_signature(text: str, env: Mapping[str, Any], *, is_cell: bool) -> tuple[list[str], Counter[str]]:
    """Return what must be the same before and after: the blocks that the text alone makes, and its inline markup."""
    shape = [] if is_cell else [token.type for token in parser().parse(keep_inline(text), dict(env))]
    return shape, count_markup(text, env, details=True)


def keep_inline(text: str) -> str:
    """Escape what would make the beginning of a text a list, a heading or a quote."""
    return re.sub(rf"\A(?!{KEPT.pattern})(?:(\d+)(?=[.)](?:\s|\Z))|(?=[-+#>=|~:]|!!!))", r"\1\\", text)


def count_markup(text: str, env: Mapping[str, Any], *, details: bool = False) -> Counter[str]:
    """Count the inline markup that markdown-it finds; with `details`, by address and content."""
    found: Counter[str] = Counter()
    for block in parser().parseInline(text, {"references": env.get("references", {})}):
        for token in block.children or ():
            name = token.type.removesuffix("_open") if token.nesting >= 0 else ""
            if name not in ("", "text", "softbreak", "hardbreak", "text_special"):
                content = "" if token.type == "image" else token.content
                found[f"{name} {token.attrs} {content}" if details else name] += 1
    return found


@dataclass(frozen=True)
class NamedVoid(Void):
    """Code, an image, an address or a tag, and what markdown-it calls it."""

    name: str = ""


def tag_name(token: "str | Void | Tag") -> str:
    """Return what markdown-it calls a piece of markup; empty for text and for the end of an element."""
    if isinstance(token, Tag):
        is_html = token.raw.startswith("<")
        return "html_inline" if is_html else "" if token.is_close else token.name
    return token.name if isinstance(token, NamedVoid) else ""


AUTOLINK = re.compile(r"<(?:[a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*|[\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+)>")
HTML_TAG = re.compile(
    r"<!--.*?-->|</?([a-zA-Z][a-zA-Z0-9-]*)(?:\s+[a-zA-Z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\s*/?>",
    re.DOTALL,
)
KEPT_HTML = re.compile(r"<(code|kbd|samp|script|style|svg|math|var)\b[^<>]*>.{0,2000}?</\1\s*>", re.DOTALL)
DESTINATION = re.compile(
    r"\(\s*(?:<(?:[^<>\n\\]|\\.)*>|(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)"
    r"(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)",
    re.DOTALL,
)
LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]", re.DOTALL)


class Source:
    """Inline Markdown with its code spans and brackets, found once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.runs: dict[int, list[int]] = {}
        for run in re.finditer("`+", text):
            self.runs.setdefault(len(run[0]), []).append(run.start())
        self.brackets = self._match_brackets()
        """Where the bracket is that closes one."""

    def find_code_end(self, at: int) -> int | None:
        """Return where the code span ends that begins here; None if its backticks have no counterpart."""
        size = count_repeats(self.text, at)
        starts = self.runs.get(size, [])
        number = bisect_right(starts, at)
        return starts[number] + size if number < len(starts) else None

    def _match_brackets(self) -> dict[int, int]:
        found: dict[int, int] = {}
        stack: list[int] = []
        at = 0
        while at < len(self.text):
            character = self.text[at]
            if character == "\\":
                at += 2
                continue
            if character == "`":
                at = self.find_code_end(at) or at + count_repeats(self.text, at)
                continue
            if character in "{:$<" and (kept := KEPT.match(self.text, at)):
                at = kept.end()
                continue
            if character == "[":
                stack.append(at)
            elif character == "]" and stack:
                found[stack.pop()] = at
            at += 1
        return found


def count_repeats(text: str, at: int) -> int:
    """Return how often a character is repeated from here on."""
    end = at
    while end < len(text) and text[end] == text[at]:
        end += 1
    return end - at


MAX_LINK_DEPTH = 4
"""Brackets within the text of a link that are looked at."""
MAX_LOOK_BACK = 100
"""Runs of delimiters among which one looks for its counterpart."""


@dataclass
class Run:
    """A run of delimiters: `*`, `_` or `~~`."""

    character: str
    count: int
    can_open: bool
    can_close: bool
    size: int
    closes: list[Tag] = field(default_factory=list)
    opens: list[Tag] = field(default_factory=list)


def scan(text: str, env: Mapping[str, Any], *, depth: int = 0) -> list[str | Void | Tag]:
    """Return text, voids and tags of inline Markdown; together they are the source."""
    pieces: list[Any] = []
    source = Source(text)
    at = start = 0

    def add(*found: Any, end: int) -> None:
        nonlocal at, start
        pieces.extend([text[start:at], *found])
        at = start = end

    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 2
        elif character == "`":
            end = source.find_code_end(at)
            if end is None:
                at += count_repeats(text, at)
            else:
                add(NamedVoid(text[at:end], "code_inline"), end=end)
        elif character in "[{:$<" and (kept := KEPT.match(text, at)):
            add(NamedVoid(kept[0], "kept"), end=kept.end())
        elif found := scan_html(text, at) or scan_link(source, at, env, depth):
            add(*found[0], end=found[1])
        elif character in "*_~":
            run = scan_run(text, at)
            if run.character == "~" and run.size != 2:
                at += run.size
            else:
                add(run, end=at + run.size)
        else:
            at += 1
    pieces.append(text[start:])
    return resolve_runs([piece for piece in pieces if piece != ""])


def scan_html(text: str, at: int) -> tuple[list[Any], int] | None:
    """Return an address in angle brackets or an HTML tag, and its end."""
    if text[at] != "<":
        return None
    if match := AUTOLINK.match(text, at):
        return [NamedVoid(match[0], "link")], match.end()
    match = KEPT_HTML.match(text, at)
    if match:
        count = len(HTML_TAG.findall(match[0]))
        return [*[NamedVoid("", "html_inline")] * (count - 1), NamedVoid(match[0], "html_inline")], match.end()
    match = HTML_TAG.match(text, at)
    if not match:
        return None
    name = (match[1] or "").lower()
    if name in INLINE and not match[0].endswith("/>"):
        return [Tag(name, match[0], match[0].startswith("</"))], match.end()
    return [NamedVoid(match[0], "html_inline")], match.end()


def scan_link(source: Source, at: int, env: Mapping[str, Any], depth: int) -> tuple[list[Any], int] | None:
    """Return a link or an image, and its end."""
    text = source.text
    is_image = text[at] == "!"
    opening = at + is_image
    if text[opening : opening + 1] != "[":
        return None
    if not is_image and (task := TASK.match(text, at)) and at == 0:
        return [Void(task[0])], task.end()
    closing = source.brackets.get(opening)
    if closing is None or depth > MAX_LINK_DEPTH:
        return None
    references = env.get("references", {})
    inner, end, keeps_label = text[opening + 1 : closing], closing + 1, False
    if match := DESTINATION.match(text, end):
        end = match.end()
    elif (match := LABEL.match(text, end)) and (normalize(match[1] or inner) in references):
        end, keeps_label = match.end(), not match[1]
    elif normalize(inner) in references:
        keeps_label = True
    else:
        return None
    if is_image or keeps_label:
        return [NamedVoid(text[at:end], "image" if is_image else "link")], end
    tokens = scan(inner, env, depth=depth + 1)
    if any(tag_name(token) == "link" for token in tokens):
        return None  # links have no links in them
    return [Tag("link", "["), *tokens, Tag("link", text[closing:end], True)], end


def normalize(label: str) -> str:
    """Return a label as markdown-it stores it."""
    from markdown_it.common.utils import normalizeReference

    return normalizeReference(label)


def scan_run(text: str, at: int) -> Run:
    """Return the run of delimiters at a place, and whether it can open or close emphasis (CommonMark 6.2)."""
    character = text[at]
    end = at + count_repeats(text, at)
    before, after = text[at - 1] if at else " ", text[end] if end < len(text) else " "
    left = not after.isspace() and (not is_symbol(after) or before.isspace() or is_symbol(before))
    right = not before.isspace() and (not is_symbol(before) or after.isspace() or is_symbol(after))
    if character == "_":
        left, right = left and (not right or is_symbol(before)), right and (not left or is_symbol(after))
    return Run(character, end - at, left, right, end - at)


def is_symbol(character: str) -> bool:
    """Tell whether a character is punctuation as CommonMark counts it."""
    return is_punctuation(character) or character in "$+<=>^`|~"


def resolve_runs(pieces: list[Any]) -> list[str | Void | Tag]:
    """Return the pieces with runs of delimiters as tags and text (CommonMark's algorithm)."""
    runs = [piece for piece in pieces if isinstance(piece, Run)]
    number = 0
    while number < len(runs):
        closer = runs[number]
        opener_number = find_opener(runs, number) if closer.can_close and closer.count else None
        if opener_number is None:
            number += 1
            continue
        opener = runs[opener_number]
        used = 2 if opener.count >= 2 and closer.count >= 2 else 1
        name = "s" if closer.character == "~" else "strong" if used == 2 else "em"
        raw = closer.character * used
        opener.opens.insert(0, Tag(name, raw))
        closer.closes.append(Tag(name, raw, True))
        opener.count -= used
        closer.count -= used
        for between in runs[opener_number + 1 : number]:
            between.can_open = between.can_close = False
    results: list[str | Void | Tag] = []
    for piece in pieces:
        results += [*piece.closes, piece.character * piece.count, *piece.opens] if isinstance(piece, Run) else [piece]
    return join_strings(results)


def find_opener(runs: Sequence[Run], number: int) -> int | None:
    """Return the nearest run before this one that it can close."""
    closer = runs[number]
    for other in range(number - 1, max(-1, number - MAX_LOOK_BACK - 1), -1):
        opener = runs[other]
        if opener.character != closer.character or not (opener.can_open and opener.count):
            continue
        both_ways = opener.can_close or closer.can_open
        if both_ways and (opener.size + closer.size) % 3 == 0 and (opener.size % 3 or closer.size % 3):
            continue
        return other
    return None


def join_strings(pieces: Sequence[str | Void | Tag]) -> list[str | Void | Tag]:
    """Join texts that follow each other, and drop empty ones."""
    results: list[str | Void | Tag] = []
    for piece in pieces:
        if isinstance(piece, str) and results and isinstance(results[-1], str):
            results[-1] += piece
        elif piece != "":
            results.append(piece)
    return results


def read_text(text: str) -> list[Inline]:
    """Return a text without its backslashes and entities, and with its addresses as voids."""
    plain = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", html.unescape(text)).replace("\0", "\ufffd")
    return protect_addresses(plain, escape)


def escape(text: str, *, in_table: bool = False) -> str:
    """Write a text so that nothing in it is markup."""
    escaped = SPECIAL.sub(lambda match: "".join(f"\\{character}" for character in match[0]), text)
    return escaped.replace("|", "\\|") if in_table else escaped
