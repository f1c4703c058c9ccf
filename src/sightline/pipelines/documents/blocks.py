"""A block of text with inline tags: what a model reads of it, and the same tags in the translation.

The text goes to the model without tags. In its translation every element is placed around the words that are aligned to
those it stood on, as one contiguous range within the range of its parent, so nesting stays valid and no tag is lost or
doubled. What has no words of its own (an image, code, an address) is placed beside the word it stood next to.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sightline.data.sentences import Span
from sightline.tracing.tokenized_text import Link, word_spans

ADDRESS = re.compile(
    r"(?:https?|ftp)://[^\s<>\"]*[^\s<>\".,;:!?)\]}'»”]"
    r"|(?<![\w.])www\.[^\s<>\"]*\w|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
)
"""Addresses of pages and e-mail, which are not translated."""
TEMPLATE = re.compile(
    r"\{\{.{1,300}?\}\}\}?|\{%.{1,300}?%\}|\{#.{1,300}?#\}"  # {{ name }}, {{{ name }}}, {% if %}, {# note #}
    r"|<%.{1,300}?%>|\$\{[a-zA-Z_][\w.]{0,100}\}"  # <%= name %>, ${name}
)
"""What template engines replace. The lengths bound the time that beginnings without an end take."""
SPACE = re.compile(r"[ \t\n\r\f\v]+")
MAX_DEPTH = 32
"""Elements within each other; deeper ones end a block."""


@dataclass(frozen=True)
class Void:
    """Something without words to translate: an image, code, an address."""

    raw: str


@dataclass(frozen=True)
class Element:
    """Inline content between two tags."""

    open: str
    close: str
    children: "tuple[Inline, ...]"


Inline = str | Void | Element


def protect_addresses(text: str, escape: Callable[[str], str] = str) -> list[Inline]:
    """Return a text with its addresses as voids."""
    found: list[Inline] = []
    end = 0
    for match in ADDRESS.finditer(text):
        found += [text[end : match.start()], Void(escape(match[0]))]
        end = match.end()
    return [part for part in (*found, text[end:]) if part]


def map_texts(children: Iterable[Inline], function: Callable[[str], list[Inline]]) -> tuple[Inline, ...]:
    """Return inline content with every text replaced by what a function makes of it."""
    results: list[Inline] = []
    for child in children:
        if isinstance(child, str):
            results += function(child)
        elif isinstance(child, Element):
            results.append(Element(child.open, child.close, map_texts(child.children, function)))
        else:
            results.append(child)
    return tuple(results)


def write_source(children: Iterable[Inline]) -> str:
    """Return inline content as it was read."""
    return "".join(
        child
        if isinstance(child, str)
        else child.raw
        if isinstance(child, Void)
        else child.open + write_source(child.children) + child.close
        for child in children
    )


@dataclass(frozen=True)
class Tag:
    """An inline tag, before it is known whether it has a counterpart."""

    name: str
    raw: str
    is_close: bool = False


MAX_TAGS = 1_000
"""Tags of one block: placing them takes time that grows with its square."""


def nest(tokens: Sequence[str | Void | Tag]) -> list[tuple[Inline, ...] | str]:
    """Return inline content with its tags as elements; a tag without a counterpart stands alone and ends the content.

    So content may be cut where its tags are wrong, or go on in another block, but tags never change their order.
    """
    partner = match_tags(tokens)
    results: list[tuple[Inline, ...] | str] = []
    levels: list[list[Inline]] = [[]]
    opening: list[str] = []
    for number, token in enumerate(tokens):
        if not isinstance(token, Tag):
            levels[-1].append(token)
        elif number not in partner:
            results += [tuple(levels[0]), token.raw]
            levels = [[]]
        elif token.is_close:
            children = levels.pop()
            levels[-1].append(Element(opening.pop(), token.raw, tuple(children)))
        else:
            levels.append([])
            opening.append(token.raw)
    return [*results, tuple(levels[0])]


def match_tags(tokens: Sequence[str | Void | Tag]) -> dict[int, int]:
    """Return for each tag the number of its counterpart, where all tags between them have theirs there."""
    partner: dict[int, int] = {}
    stack: list[int] = []
    tags = [(number, token) for number, token in enumerate(tokens) if isinstance(token, Tag)]
    for count, (number, tag) in enumerate(tags, start=1):
        top = tokens[stack[-1]] if stack else None
        if count % MAX_TAGS == 0 or (not tag.is_close and len(stack) >= MAX_DEPTH):
            stack = []
        elif not tag.is_close:
            stack.append(number)
        elif isinstance(top, Tag) and top.name == tag.name:
            partner[number], partner[stack[-1]] = stack[-1], number
            stack.pop()
        else:
            stack = []
    return partner


@dataclass
class Node:
    """An element or a void in the plain text of its block."""

    start: int
    end: int = 0
    open: str = ""
    close: str = ""
    children: "list[Node]" = field(default_factory=list)
    space_before: bool = True
    space_after: bool = False
    """Whether a void has white space, or the end of the block, on either side."""

    @property
    def raw(self) -> str:
        """All tags of a node without words."""
        return self.open + "".join(child.raw for child in self.children) + self.close


class PlainText:
    """The plain text of inline content, with runs of white space as one space, and its nodes."""

    def __init__(self, children: Iterable[Inline]) -> None:
        self.text = ""
        self.pending: list[Node] = []
        """Voids with no text behind them yet."""
        self.root = Node(0)
        self.root.children = [node for child in children for node in self._add(child)]
        self.text = self.text.rstrip(" ")
        for node in self.pending:
            node.space_after = True
        self._clamp(self.root)

    def _add(self, child: Inline) -> list[Node]:
        if isinstance(child, str):
            self._add_text(SPACE.sub(" ", child))
            return []
        node = Node(len(self.text), space_before=not self.text or self.text.endswith(" "))
        if isinstance(child, Void):
            node.open = child.raw
            self.pending.append(node)
        else:
            node.open, node.close = child.open, child.close
            node.children = [inner for one in child.children for inner in self._add(one)]
            node.end = len(self.text)
            if not self.text[node.start : node.end].strip():
                self.pending.append(node)
        return [node]

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if text.startswith(" "):
            for node in reversed(self.pending):
                if node.space_after:
                    break  # and so have those before it
                node.space_after = True
            if not self.text or self.text.endswith(" "):
                text = text[1:]
        elif self.pending and text[0] in CLOSING and self._is_after_stop():
            rest = text.lstrip(CLOSING)
            self.pending[-1].close += text[: len(text) - len(rest)]  # punctuation of the void, not of the text
            self._add_text(rest)
            return
        elif self.pending and is_punctuation(text[0]) and self.text.endswith(" "):
            self.text = self.text[:-1]  # "Use `x`." is read as "Use."
            for node in self.pending:
                node.start = min(node.start, len(self.text))
        if text:
            self.pending = []
        self.text += text

    def _is_after_stop(self) -> bool:
        """Tell whether the text, up to a space, is empty or ends in punctuation."""
        return not self.text or (self.text.endswith(" ") and is_punctuation(self.text[-2:-1] or "."))

    def _clamp(self, node: Node) -> None:
        node.start, node.end = min(node.start, len(self.text)), max(node.start, min(node.end, len(self.text)))
        for child in node.children:
            self._clamp(child)


CLOSING = ",.;:!?)"


def is_punctuation(character: str) -> bool:
    """Tell whether a character is punctuation."""
    return unicodedata.category(character).startswith("P")


@dataclass(frozen=True)
class Break:
    """A line break of the source that the translation must have, too."""

    share: float
    """Where it stands, as a share of the plain text."""
    raw: str


@dataclass(frozen=True)
class Block:
    """Inline content that is translated as one text."""

    children: tuple[Inline, ...]
    source: str
    """The block as the document has it."""
    before: str = ""
    after: str = ""
    """White space around it."""
    escape: Callable[[str], str] = str
    """Writes a text in the markup of the document."""
    finish: Callable[[str], str] = str
    """Changes what must not stand at the beginning."""
    accepts: Callable[[str], bool] = lambda _: True
    """Tells whether a translated block still has the structure of the source; a block that has not stays as it is."""
    breaks: tuple[Break, ...] = ()
    may_break: Callable[[str], bool] = lambda _: True
    """Tells whether a line may begin with this text."""

    @cached_property
    def plain(self) -> PlainText:
        """The text without tags."""
        return PlainText(self.children)

    @property
    def is_text(self) -> bool:
        """Whether it has anything to translate."""
        return any(map(str.isalpha, self.plain.text))

    def render(self, target: str, links: Sequence[Link]) -> str | None:
        """Return the translation with the tags of the source; None if that is impossible."""
        if not target.strip():
            return None
        mark = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in target + self.source)
        rendered = Placement(self, target, links, mark).render()
        rendered = self.finish(insert_breaks(rendered, mark, self.breaks, self.may_break))
        return self.before + rendered + self.after if self.accepts(rendered) else None


@dataclass(frozen=True)
class Document:
    """A document: parts that stay as they are, and blocks."""

    parts: tuple[str | Block, ...]
    notes: tuple[str, ...] = ()
    """Warnings of the reader: what it could not take apart."""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks with text to translate."""
        return tuple(part for part in self.parts if isinstance(part, Block) and part.is_text)

    @property
    def texts(self) -> list[str]:
        """The text of each block, without tags."""
        return [block.plain.text for block in self.blocks]

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> tuple[str, list[str]]:
        """Return the document with these texts and their word links in place of its own, and warnings."""
        results, found, notes = [], iter(translations), list(self.notes)
        for part in self.parts:
            if isinstance(part, str):
                results.append(part)
            elif not part.is_text:
                results.append(part.before + part.source + part.after)
            else:
                rendered = part.render(*next(found))
                if rendered is None:
                    start = part.plain.text[:60]
                    notes.append(f"this part was left as it is, as its markup would not survive: {start!r}")
                results.append(part.before + part.source + part.after if rendered is None else rendered)
        return "".join(results), notes


def insert_breaks(text: str, mark: str, breaks: Sequence[Break], may_break: Callable[[str], bool]) -> str:
    """Put line breaks in place of some of the marked spaces, each near its share of the text; the others are spaces."""
    pieces = text.split(mark)
    gaps, length = [], 0
    for number, piece in enumerate(pieces[:-1]):
        length += len(piece) + 1
        if may_break(mark.join(pieces[number + 1 : number + 4]).replace(mark, " ")) and piece.strip():
            gaps.append((length, number))
    chosen: dict[int, str] = {}
    low = 0
    for index, one in enumerate(breaks):
        high = len(gaps) - (len(breaks) - index - 1)
        if low >= min(high, len(gaps)):
            break
        best = find_nearest(gaps, one.share * len(text), low, high)
        chosen[gaps[best][1]] = one.raw
        low = best + 1
    return "".join(piece + chosen.get(number, " ") for number, piece in enumerate(pieces[:-1])) + pieces[-1]


def find_nearest(gaps: Sequence[tuple[int, int]], place: float, low: int, high: int) -> int:
    """Return which of the gaps from `low` to `high`, sorted by place, is nearest to a place: of two, the first."""
    following = bisect_left(gaps, place, low, high, key=lambda gap: gap[0])
    return min(range(max(low, following - 1), min(high, following + 1)), key=lambda gap: abs(gaps[gap][0] - place))


OWN, OUTSIDE, UNLINKED = 10_010, -10_000, -1
"""Scores of words in a range: a gap is bridged if it has no more words than are gained."""


class Placement:
    """Places the nodes of a block in its translation."""

    def __init__(self, block: Block, target: str, links: Sequence[Link], mark: str) -> None:
        self.target, self.mark, self.escape = target, mark, block.escape
        self.source, self.root = block.plain.text, block.plain.root
        self.source_words, self.words = word_spans(self.source), word_spans(target)
        self.word_starts, self.word_ends = [start for start, _ in self.words], [end for _, end in self.words]
        self.source_starts = [start for start, _ in self.source_words]
        self.source_ends = [end for _, end in self.source_words]
        self.weights: list[dict[int, float]] = [{} for _ in self.words]
        """For each target word the weight of the source words it is linked to."""
        self.linked: list[dict[int, float]] = [{} for _ in self.source_words]
        for link in links or self.diagonal():
            word = bisect_right(self.source_starts, link.source_start) - 1
            other = bisect_right(self.word_starts, link.target_start) - 1
            if word >= 0 and other >= 0:
                self.weights[other][word] = self.linked[word][other] = link.weight

    def diagonal(self) -> list[Link]:
        """Return links by position alone, for a model that gives none."""
        n, m = len(self.source_words), len(self.words)
        return [
            Link(*self.source_words[min(n - 1, (2 * word + 1) * n // (2 * m))], *span, 1.0)
            for word, span in enumerate(self.words)
            if n
        ]

    def render(self) -> str:
        """Return the translation with all tags."""
        start, end = (self.words[0][0], self.words[-1][1]) if self.words else (0, len(self.target))
        return self._render(self.root, start, end)

    def _render(self, node: Node, low: int, high: int) -> str:
        """Return the content of a node that has the characters from `low` to `high`."""
        elements = self._place_elements(node, low, high)
        voids = [child for child in node.children if not self._has_words(child)]
        placed = [*elements, *((self._find_place(child, node, elements, low, high), -1, child) for child in voids)]
        order = sorted(range(len(placed)), key=lambda number: (placed[number][0], placed[number][1] >= 0, number))
        result, at = "", low
        for start, end, child in (placed[number] for number in order):
            result += self._write(at, start)
            at = start
            if end >= 0:
                result += child.open + self._render(child, start, end) + child.close
                at = end
            else:
                result += self._write_void(child, result, at, high)
        return result + self._write(at, high)

    def _write(self, start: int, end: int) -> str:
        return self.mark.join(map(self.escape, SPACE.sub(" ", self.target[start:end]).split(" ")))

    def _write_void(self, node: Node, before: str, at: int, high: int) -> str:
        """Return a void with the white space it needs on either side."""
        left = self.mark if node.space_before and before and not before.endswith(self.mark) else ""
        following = self.target[at : min(at + 1, high)]
        needs_space = node.space_after and following and not following.isspace() and not is_punctuation(following)
        return left + node.raw + (self.mark if needs_space else "")

    def _has_words(self, node: Node) -> bool:
        return bool(self.source[node.start : node.end].strip()) and node.end > node.start

    def _place_elements(self, parent: Node, low: int, high: int) -> list[tuple[int, int, Node]]:
        """Return a range for every child with words; ranges do not overlap."""
        children = [child for child in parent.children if self._has_words(child)]
        if not children:
            return []
        first, last = bisect_right(self.word_ends, low), bisect_left(self.word_starts, high)
        owners = self._find_owners(children, first, last)
        placed: list[tuple[int, int, Node]] = []
        homeless = []
        taken: set[int] = set()
        for number, child in enumerate(children):
            found = find_best_range(owners, number)
            if found is None:
                homeless.append(child)
            else:
                words = range(first + found[0], first + found[1])
                taken.update(words)
                placed.append((*self._trim(words, child, low, high), child))
        for child in homeless:
            self._place_homeless(child, placed, taken, range(first, last), (low, high))
        return placed

    def _find_owners(self, children: Sequence[Node], first: int, last: int) -> list[int | None]:
        """Return for each target word the child it belongs to: -1 for none, None if it is linked to nothing."""
        shares: dict[int, list[tuple[int, float]]] = {}
        for number, child in enumerate(children):
            start, end = bisect_right(self.source_ends, child.start), bisect_left(self.source_starts, child.end)
            for word in range(start, end):
                shares.setdefault(word, []).append((number, self._cover(child, word)))
        owners: list[int | None] = []
        for word in range(first, last):
            total = sum(self.weights[word].values())
            by_child: dict[int, float] = {}
            for other, weight in self.weights[word].items():
                for number, share in shares.get(other, ()):
                    by_child[number] = by_child.get(number, 0.0) + share * weight
            best = max(by_child, key=lambda number: by_child[number], default=-1)
            owners.append(None if not total else best if best >= 0 and 2 * by_child[best] > total else -1)
        return owners

    def _cover(self, node: Node, word: int) -> float:
        """Return the share of a source word's letters that a node has."""
        start, end = self.source_words[word]
        letters = [at for at in range(start, end) if not is_punctuation(self.source[at])] or list(range(start, end))
        return sum(node.start <= at < node.end for at in letters) / len(letters)

    def _trim(self, words: Sequence[int], node: Node, low: int, high: int) -> Span:
        """Return the characters of words, without punctuation at an end where the source has none."""
        start, end = max(low, self.words[words[0]][0]), min(high, self.words[words[-1]][1])
        own = self.source[node.start : node.end].strip()
        if all(map(is_punctuation, self.target[start:end])):
            return start, end
        while not is_punctuation(own[-1]) and is_punctuation(self.target[end - 1]):
            end -= 1
        while not is_punctuation(own[0]) and is_punctuation(self.target[start]):
            start += 1
        return start, end

    def _place_homeless(
        self,
        child: Node,
        placed: list[tuple[int, int, Node]],
        taken: set[int],
        words: Sequence[int],
        limits: Span,
    ) -> None:
        """Place an element whose words are aligned to nothing of their own: on a free word, or around a neighbor."""
        center = (child.start + child.end) / 2 / max(1, len(self.source)) * len(self.target)
        start, end = bisect_right(self.source_ends, child.start), bisect_left(self.source_starts, child.end)
        own = range(start, end)
        free = [word for word in words if word not in taken]
        if free:
            best = max(
                free,
                key=lambda word: (
                    sum(self.weights[word].get(one, 0.0) for one in own),
                    -abs(sum(self.words[word]) / 2 - center),
                ),
            )
            taken.add(best)
            placed.append((*self._trim([best], child, *limits), child))
            return
        number = min(range(len(placed)), key=lambda one: abs((placed[one][0] + placed[one][1]) / 2 - center))
        low, high, neighbor = placed[number]
        around = Node(child.start, child.end, child.open, child.close, [neighbor, *child.children])
        placed[number] = (low, high, around)

    def _find_place(
        self, node: Node, parent: Node, placed: Sequence[tuple[int, int, Node]], low: int, high: int
    ) -> int:
        """Return where a void stands: beside the translation of its neighbor, and not within another element."""
        place = self._find_free_place(node, parent, low, high)
        for start, end, _ in placed:
            if start < place < end:
                place = start if place - start < end - place else end
        return min(max(place, low), high)

    def _find_free_place(self, node: Node, parent: Node, low: int, high: int) -> int:
        is_root = parent is self.root
        begin, stop = (0, len(self.source)) if is_root else (parent.start, parent.end)
        before = bisect_left(self.source_starts, node.start) - 1
        after = bisect_right(self.source_ends, node.start)
        has_before = before >= 0 and self.source_ends[before] > begin
        has_after = after < len(self.source_words) and self.source_starts[after] < stop
        if not has_before:
            return low
        if not has_after:
            return high
        inside = self.source_ends[before] > node.start
        previous, following = self._best_link(before, low, high), self._best_link(after, low, high)
        if node.space_before and not node.space_after and not inside and following is not None:
            return self.words[following][0]
        if previous is not None:
            place = self.words[previous][1]
            if inside and all(map(is_punctuation, self.source[node.start : self.source_ends[before]])):
                while place - 1 > self.words[previous][0] and is_punctuation(self.target[place - 1]):
                    place -= 1
            return place
        if following is not None:
            return self.words[following][0]
        nearest = low + round((node.start - begin) / max(1, stop - begin) * (high - low))
        return min((*self.word_ends[bisect_right(self.word_ends, low) : bisect_left(self.word_starts, high)], low),
                   key=lambda place: abs(place - nearest))  # fmt: skip

    def _best_link(self, word: int, low: int, high: int) -> int | None:
        """Return the target word between two places that a source word is linked to most."""
        inside = {
            other: weight
            for other, weight in self.linked[word].items()
            if self.words[other][1] > low and self.words[other][0] < high
        }
        return max(inside, key=lambda other: inside[other], default=None)


def find_best_range(owners: Sequence[int | None], number: int) -> tuple[int, int] | None:
    """Return the range with the most words of an owner and the fewest others, none of them another owner's."""
    best, best_score, start, score = None, 0, 0, 0
    for at, owner in enumerate(owners):
        if owner is not None and owner >= 0 and owner != number:
            start, score = at + 1, 0
            continue
        score += OWN if owner == number else UNLINKED if owner is None else OUTSIDE
        if score <= 0:
            start, score = at + 1, 0
        elif score > best_score:
            best, best_score = (start, at + 1), score
    return best
