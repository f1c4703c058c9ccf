"""What is dropped from a corpus, and what is only counted: blank sides, duplicates, copies."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from sightline.text.counts import Counts
from sightline.text.record import Record

MOST_REMEMBERED = 1_000_000
"""Records that duplicates are looked for among: memory stays bounded, however large the corpus."""


def cleaned(
    records: Iterable[Record], *, pairs: bool, drop_duplicates: bool, drop_copies: bool, counts: Counts
) -> Iterator[Record]:
    """Pass on what can be learned from; `pairs` looks for pairs whose two sides are the same."""
    seen: set[bytes] = set()
    for record in records:
        if outcome := blank_outcome(record):
            counts.add(outcome)
            continue
        if pairs and record.fields[0] == record.fields[1]:
            counts.add("copies_dropped" if drop_copies else "copies")
            if drop_copies:
                continue
        mark = fingerprint(record)
        if mark in seen:
            counts.add("duplicates_dropped" if drop_duplicates else "duplicates")
            if drop_duplicates:
                continue
        elif len(seen) < MOST_REMEMBERED:
            seen.add(mark)
        counts.add("kept")
        yield record


def blank_outcome(record: Record) -> str | None:
    """Return what a record with nothing in it, or nothing on one side, counts as."""
    blank = [not "".join(field).strip() for field in record.fields]
    if not any(blank):
        return None
    return "blank" if all(blank) else "half_blank"


def fingerprint(record: Record) -> bytes:
    """Return a few bytes that only the same text has."""
    return blake2b(repr(record.fields).encode("utf-8"), digest_size=8).digest()
