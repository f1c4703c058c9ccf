"""Corpus cleaning: blank records are dropped; duplicates and identical pairs are dropped or only counted."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from sightline.text.counts import Counts
from sightline.text.record import Record

MAX_FINGERPRINTS = 1_000_000
"""Distinct records that duplicates are compared with: memory stays bounded, however large the corpus."""


def clean(
    records: Iterable[Record], *, pairs: bool, drop_duplicates: bool, drop_identical: bool, counts: Counts
) -> Iterator[Record]:
    """Yield the usable records; with `pairs`, look for pairs with identical sides."""
    seen: set[bytes] = set()
    for record in records:
        if outcome := blank_outcome(record):
            counts.add(outcome)
            continue
        if pairs and record.fields[0] == record.fields[1]:
            counts.add("copies_dropped" if drop_identical else "copies")
            if drop_identical:
                continue
        digest = fingerprint(record)
        if digest in seen:
            counts.add("duplicates_dropped" if drop_duplicates else "duplicates")
            if drop_duplicates:
                continue
        elif len(seen) < MAX_FINGERPRINTS:
            seen.add(digest)
        counts.add("kept")
        yield record


def blank_outcome(record: Record) -> str | None:
    """Return the outcome to count for a blank or half-blank record, or None."""
    blank = [not "".join(field).strip() for field in record.fields]
    if not any(blank):
        return None
    return "blank" if all(blank) else "half_blank"


def fingerprint(record: Record) -> bytes:
    """Return a short hash of the text."""
    return blake2b(repr(record.fields).encode("utf-8"), digest_size=8).digest()
