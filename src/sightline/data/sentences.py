"""Sentences of a text by rules: where one ends, and where one that is too long can be cut.

Results are spans, so what stands between two sentences (spaces, line breaks) is never lost. A line break always ends a
sentence. A full stop does so only where the next word can begin one, and not after abbreviations, initials and
ordinals of the common European languages; scripts that write no spaces have stops of their own. Knows no model.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

Span = tuple[int, int]
"""Start and end in a text, in characters."""

LINE = re.compile(r"[^\n\r\t\v\f\x85\u2028\u2029]+")
"""Line breaks and tabs end every sentence: they lay out a text."""
OWN_STOPS = "。！？｡︒।॥؟۔።፧။។៕།։"
"""Stops that end a sentence with or without a space behind them."""
STOPS = re.compile(
    rf"(?P<own>[{OWN_STOPS}]+[.!?…]*)(?P<own_closers>[\"'”’»›)\]}}」』）】》〉〕]*)"
    r"|(?<![.!?…‽])(?P<stop>[.!?…‽]++)(?P<closers>(?:[\"'”’“‘«»‹›)\]}*_]|[ \u00a0\u202f][»›])*+)(?=\s|\Z)"
)
OPENERS = re.compile(r"[\s\"'“”„‚‘’«»‹›(\[{¿¡*_–—-]*")
CONTINUES_QUOTE = re.compile(r"と|って|など")
"""Japanese: a quotation goes on as part of its sentence."""
LAST_WORD = re.compile(r"[^\s\"(\[{«„“‚‘]*\Z")
INITIAL = re.compile(r"[^\W\d_]\.")
FIRST_WORD = re.compile(r"\w*")
WINDOW = 60
"""Characters around a stop that decide."""


def words(text: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(text.split())


TITLES = words("""
    Mr Mrs Ms Dr Prof Rev Hon Gen Col Capt Lt Sgt Sr St Mt Ft Messrs Gov Sen Rep Pres Supt Insp Ave Blvd Rd Dept
    Univ Jan Feb Apr Aug Sep Sept Oct Okt Nov Dec Dez Hr Fr Frl Hl Dipl Ing Hrsg Str Tel M MM Mme Mlle Mgr Me Av Ste
    Sra Srta Srs Dra Dña Gral Lic Ud Uds Vd Vds Avda Sig Sigg Dott Avv Egr Gent Spett Exmo Exma Dhr Mevr Mw Drs
    """)
"""Abbreviations of titles, streets and months: with a capital letter, as several are words without one."""
ABBREVIATIONS = words("""
    vs cf al viz resp approx bzw ca evtl ggf mio mrd sog vgl zzt zzgl inkl exkl bspw bes geb gest verh abs mwst dipl
    env éd admón ej pág págs dott ing prof dr bijv blz evt incl tzn tzw ul inż mgr hab tj např tzv mj kr bl dvs
    """)
BEFORE_NUMBER = words("no nos nr nrs núm num nº p pp s fig figs abb tab art ch chap kap vol bd sec eq n ver")
"""Abbreviations only before a number: "No. 5", but "No. I did not."."""
MAY_END = words("etc usw ecc usf inc ltd co corp jr bros a.m p.m am pm u.a u.ä enz osv itd ff sq b.c a.d")
"""Abbreviations that often end a sentence: they do before a capital letter."""
MONTHS = words("""
    januar jänner februar märz april mai juni juli august september oktober november dezember jan feb mär mrz apr
    jun jul aug sep sept okt nov dez marts maj december januari februari mars augusti tammikuuta helmikuuta
    jahrhundert jahrhunderts jh jhd weltkrieg weltkriegs platz klasse liga stock auflage mal kapitel jahrestag
    geburtstag
    """)
BEFORE_ORDINAL = words("der die das dem den des am im vom zum zur beim bis")


def split_sentences(text: str) -> list[Span]:
    """Return the spans of the sentences; between them is only white space."""
    spans = []
    for line in LINE.finditer(text):
        start = line.start()
        for end in find_ends(text, line.start(), line.end()):
            spans.append(trim(text, start, end))
            start = end
        spans.append(trim(text, start, line.end()))
    return [(start, end) for start, end in spans if start < end]


def split_lines(text: str) -> list[Span]:
    """Return the spans of the lines that are not blank, without the white space around them."""
    spans = (trim(text, line.start(), line.end()) for line in LINE.finditer(text))
    return [(start, end) for start, end in spans if start < end]


def trim(text: str, start: int, end: int) -> Span:
    """Return a span without the white space at its ends."""
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())


def find_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where sentences of a line end, but for the last."""
    capitals = any(map(str.isupper, text[start:end]))
    for match in STOPS.finditer(text, start, end):
        if match.end() >= end:
            return
        if match["own"]:
            if not (match["own_closers"] and CONTINUES_QUOTE.match(text, match.end())):
                yield match.end()
        elif is_end(text, match, start=start, end=end, capitals=capitals):
            yield match.end()


def is_end(text: str, stop: re.Match[str], *, start: int, end: int, capitals: bool) -> bool:
    """Tell whether a stop with a space behind it ends a sentence; `capitals`: whether the line has any."""
    opener = OPENERS.match(text, stop.end(), end)
    following = text[opener.end() : opener.end() + WINDOW] if opener else ""
    before = text[max(start, stop.start() - WINDOW) : stop.start()]
    if following[:1].islower() and capitals and (stop["closers"] or stop["stop"][-1] not in "!?‽"):
        return False
    if not following:  # only quotes and dashes are left
        return False
    if stop["stop"] != ".":
        return bool(before.strip()) or len(stop["stop"]) > 1
    return ends_after(before, following, closed=bool(stop["closers"]), is_first=stop.start() - start <= WINDOW)


def ends_after(before: str, following: str, *, closed: bool, is_first: bool) -> bool:
    """Tell whether a single full stop between these texts ends a sentence; `is_first`: `before` begins the line."""
    found = LAST_WORD.search(before)
    word = found[0] if found else ""
    lower, head = word.lower().strip("'’"), before[: len(before) - len(word)].strip()
    if not word:
        return bool(before.strip())
    if word.isdigit() and len(word) <= 3:
        return closed or ends_after_number(head, following, is_first=is_first)
    if closed and not is_abbreviation(word):
        return True
    if lower in MAY_END:
        return following[:1].isupper()
    if lower in BEFORE_NUMBER:
        return not (following[:1].isdigit() or is_roman(following))
    is_initial = len(word) == 1 and word.isalpha() and (word.isupper() or INITIAL.match(following) is not None)
    return not (is_initial or is_abbreviation(word))


def ends_after_number(head: str, following: str, *, is_first: bool) -> bool:
    """Tell whether the full stop after a short number ends a sentence, or makes it an ordinal or a list's number."""
    next_word, last = FIRST_WORD.match(following), head.lower().split()[-1:]
    if (is_first and not head) or (head[-1:] in tuple(".!?") and not is_abbreviation(head.split()[-1][:-1])):
        return False
    return not (
        following[:1].isdigit()
        or (next_word is not None and next_word[0].lower() in MONTHS)
        or (last and last[0] in BEFORE_ORDINAL)
    )


def is_abbreviation(word: str) -> bool:
    """Tell whether a word, without its last full stop, is an abbreviation: Dr, bzw, e.g, z.B, U.S."""
    parts = word.split(".")
    is_dotted = len(parts) > 1 and all(len(part) <= 2 and part.isalpha() for part in parts)
    return is_dotted or word in TITLES or word.lower() in ABBREVIATIONS


def is_roman(text: str) -> bool:
    """Tell whether a text begins with a Roman numeral of more than one letter."""
    return re.match(r"[IVXLCDM]{2,}\b", text) is not None


CLAUSE_ENDS = re.compile(r"[.!?…;:,،؛、，；：—–](?=[\s\"'”’»)\]])|[、，；：。！？]")
SPACES = re.compile(r"\s+")


def cut_sentence(text: str, *, limit: int, offsets: Callable[[str], Sequence[Span]]) -> list[Span]:
    """Return the spans of parts of at most `limit` tokens: cut after punctuation, else at a space, else anywhere.

    `offsets` tokenizes: it returns the span of every token. A character of more tokens than the limit stays whole.
    """
    tokens = offsets(text)
    if len(tokens) <= limit or len(text) < 2:
        return [(0, len(text))]
    after = [match.end() for match in CLAUSE_ENDS.finditer(text)]
    spaces = [match.start() for match in SPACES.finditer(text)]
    ends, first = [], 0
    while len(tokens) - first > limit:
        start = tokens[first][0]
        low, high = tokens[first + limit // 2][0], tokens[first + limit - 1][1]
        end = choose_cut(after, spaces, max(low, start + 1), high)
        end = end if end is not None else max(high, start + 1)
        if end >= len(text):
            break
        ends.append(end)
        while first < len(tokens) and tokens[first][0] < end:
            first += 1
    if not ends:
        ends = [len(text) // 2]
    found = []
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        start, end = trim(text, start, end)
        if start < end:
            part = text[start:end]
            again = [(0, len(part))] if len(part) == len(text) else cut_sentence(part, limit=limit, offsets=offsets)
            found += [(start + one, start + other) for one, other in again]  # a part alone may have more tokens
    return found


def choose_cut(after: Sequence[int], spaces: Sequence[int], low: int, high: int) -> int | None:
    """Return the last punctuation between two positions, or else the last space."""
    for places in (after, spaces):
        place = bisect_right(places, high) - 1
        if place >= 0 and places[place] >= low:
            return places[place]
    return None
