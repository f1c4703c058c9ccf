"""Subtitles, SubRip (SRT) and WebVTT: numbers and times stay byte for byte, texts keep their lines and tags.

A sentence that runs over several cues is translated as one, and its translation is divided among them as the source
was. Lines that begin with a dash are turns of a dialogue and are translated one by one. A cue of SRT may have blank
lines, and times as WebVTT writes them. In WebVTT the first blank line ends a cue: what follows up to the next times,
such as notes, styles and names of cues, stays as it is.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sightline.data.sentences import OWN_STOPS
from sightline.errors import InputError
from sightline.pipelines.documents.blocks import (
    Block,
    Break,
    Document,
    Inline,
    Tag,
    Void,
    map_texts,
    nest,
    protect_addresses,
    write_source,
)

CLOCK = r"((?:\d+:)?\d+:\d+[,.]\d+)"
TIMES = re.compile(rf"[ \t]*{CLOCK}[ \t]*-->[ \t]*{CLOCK}.*")
NUMBER = re.compile(r"\s*\d+\s*")
WEBVTT = re.compile(r"\ufeff?WEBVTT(?=[ \t\r\n]|\Z)")
"""The beginning of a WebVTT file."""
TIME_TAG = re.compile(r"<[\d:]+\.\d+>")
TAG = re.compile(
    rf"</?([a-zA-Z]+)(?:\.[^<>\s]*)?(?:[ \t][^<>\n]*)?>|{TIME_TAG.pattern}|\{{\\[^{{}}\n]*\}}",
)
"""A tag, in WebVTT also with classes (`<c.loud>`) or a time (`<00:01.500>`); in braces what SubStation Alpha writes."""
LINES = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
LINE_BREAK = re.compile(r"(?<![ \t])(?:[ \t]*(?:\r\n?|\n))+")
"""The end of a line, with the blank lines that follow."""
DASH = re.compile(r"[ \t]*[-–—][ \t]*")
SENTENCE_END = re.compile(rf"[.!?…{OWN_STOPS}][\"'”’»)\]]*\s*\Z")
MAX_JOINED = 6
"""Cues that one sentence may run over."""
MAX_PAUSE = 3.0
"""Seconds between two cues that one sentence may run over."""


@dataclass
class Cue:
    """The text of a cue, and what stands before it: blank lines, number and times, and notes of WebVTT."""

    head: str
    lines: list[str]
    """With their line ends."""
    start: float = 0.0
    end: float = 0.0
    """When it is shown, in seconds."""

    @property
    def text(self) -> str:
        """All lines."""
        return "".join(self.lines)

    @property
    def is_plain(self) -> bool:
        """Whether it has no tags, turns of a dialogue or blank lines, so that a sentence may run on from or to it."""
        if not self.lines or TAG.search(self.text):
            return False
        return all(line.strip() and not DASH.match(line) for line in self.lines)


def read_srt(source: str) -> Document:
    """Read subtitles."""
    parts: list[str | Block] = []
    cues = list(read_cues(source))
    if len(cues) == 1 and source.strip() and not WEBVTT.match(source):
        raise InputError(
            "no subtitle times such as 00:00:01,000 --> 00:00:02,000 found: "
            "give the content of a subtitle file, not its name, or choose another markup",
            option="markup",
        )
    at = 0
    while at < len(cues):
        n_cues = count_joined(cues[at:][:MAX_JOINED])
        parts += join_cues(cues[at : at + n_cues]) if n_cues > 1 else read_cue(cues[at])
        at += n_cues
    return Document(tuple(parts))


def read_cues(source: str) -> Iterator[Cue]:
    """Yield the cues, and last what stands behind them; together they are the source."""
    lines = LINES.findall(source)
    is_webvtt = WEBVTT.match(source) is not None
    times = {number: match for number, line in enumerate(lines) if (match := TIMES.fullmatch(line.rstrip("\r\n")))}
    heads = find_heads(lines, list(times))
    at = 0
    for (number, match), following in zip(times.items(), [*heads, len(lines)][1:], strict=True):
        start, end = number + 1, following
        if is_webvtt:
            end = next((blank for blank in range(start, end) if not lines[blank].strip("\r\n")), end)
        while start < end and not lines[start].strip():
            start += 1
        while end > start and not lines[end - 1].strip():
            end -= 1
        yield Cue("".join(lines[at:start]), lines[start:end], read_clock(match[1]), read_clock(match[2]))
        at = end
    yield Cue("".join(lines[at:]), [])


def find_heads(lines: Sequence[str], times: Sequence[int]) -> list[int]:
    """Return the line on which each cue begins: that of its number, or else of its times."""
    heads = []
    for number, previous in zip(times, [-1, *times], strict=False):
        above = number - 1
        while above > previous and not lines[above].strip():
            above -= 1
        heads.append(above if above > previous and NUMBER.fullmatch(lines[above]) else number)
    return heads


def read_clock(clock: str) -> float:
    """Return a time in seconds."""
    seconds = 0.0
    for part in clock.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def count_joined(cues: Sequence[Cue]) -> int:
    """Return how many of the next cues have one sentence together."""
    for number, cue in enumerate(cues):
        if not cue.is_plain or (number and cue.start - cues[number - 1].end > MAX_PAUSE):
            return max(1, number)
        if SENTENCE_END.search(cue.text):
            return number + 1
    return len(cues)


def join_cues(cues: Sequence[Cue]) -> list[str | Block]:
    """Return one block for the text of several cues."""
    texts, marks = [], list[tuple[int, str]]()
    length = 0
    for number, cue in enumerate(cues):
        if number:
            end = cues[number - 1].lines[-1]
            marks.append((length, end[len(end.rstrip()) :] + cue.head))
        for index, line in enumerate(cue.lines):
            if index:
                marks.append((length, cue.lines[index - 1][len(cue.lines[index - 1].rstrip()) :]))
            texts.append(line.strip())
            length += len(line.strip()) + 1
    after = cues[-1].lines[-1]
    last = after[len(after.rstrip()) :]
    source = "".join(cue.text if not number else cue.head + cue.text for number, cue in enumerate(cues))
    block = Block(
        tuple(protect_addresses(" ".join(texts))),
        source.removesuffix(last) if last else source,
        after=last,
        escape=escape,
        breaks=tuple(Break(place / max(1, length), raw) for place, raw in marks),
        accepts=lambda rendered: rendered.count("-->") == sum(raw.count("-->") for _, raw in marks),
    )
    return [cues[0].head, block]


def read_cue(cue: Cue) -> list[str | Block]:
    """Return the blocks of one cue: all of it, or one for every turn of a dialogue."""
    parts: list[str | Block] = [cue.head]
    turns: list[list[str]] = []
    for line in cue.lines:
        if turns and not DASH.match(line) and not (DASH.match(turns[-1][0]) and len(cue.lines) == 1):
            turns[-1].append(line)
        else:
            turns.append([line])
    for turn in turns:
        dash = DASH.match(turn[0])
        if dash:
            parts.append(dash[0])
        parts += read_turn([turn[0][dash.end() if dash else 0 :], *turn[1:]])
    return parts


def read_turn(lines: Sequence[str]) -> list[str | Block]:
    """Return the blocks of lines that belong together, and tags without a counterpart between them."""
    text = "".join(lines)
    tokens: list[str | Void | Tag] = []
    end = 0
    for match in TAG.finditer(text):
        name = (match[1] or "").lower()
        tokens += [text[end : match.start()], Tag(name, match[0], match[0][1] == "/") if name else Void(match[0])]
        end = match.end()
    tokens.append(text[end:])
    parts: list[str | Block] = []
    for content in nest([token for token in tokens if token != ""]):
        if isinstance(content, str):
            parts.append(content)
        elif content:
            parts.append(build_block(content))
    return parts


def build_block(content: Sequence[Inline]) -> Block:
    """Return a block of inline content, with its line breaks."""
    source = write_source(content)
    inner = source.strip()
    start, length = source.find(inner), max(1, len(TAG.sub("", inner)))
    breaks = (
        Break(len(TAG.sub("", inner[: match.start()])) / length, match[0]) for match in LINE_BREAK.finditer(inner)
    )
    tags = Counter(match[0] for match in TAG.finditer(inner))
    times = TIME_TAG.findall(inner)

    def finish(rendered: str) -> str:
        in_order = iter(times)
        return TIME_TAG.sub(lambda match: next(in_order, match[0]), rendered)

    return Block(
        map_texts(content, protect_addresses),
        inner,
        before=source[:start],
        after=source[start + len(inner) :],
        escape=escape,
        finish=finish,
        breaks=tuple(breaks),
        accepts=lambda rendered: Counter(match[0] for match in TAG.finditer(rendered)) == tags,
    )


LOOKS_LIKE_MARKUP = re.compile(r"<(?=[a-zA-Z/])|-->|\{(?=\\)")
SUBSTITUTES = {"<": "‹", "-->": "→", "{": "("}


def escape(text: str) -> str:
    """Keep a translation from looking like tags or times, which SRT has no way to escape."""
    return LOOKS_LIKE_MARKUP.sub(lambda match: SUBSTITUTES[match[0]], text)
