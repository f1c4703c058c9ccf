"""Who may ask: with keys given, everything needs one, apart from the few addresses that are named as public.

A key that may only read looks at everything and asks for nothing to be done: what a Prometheus is given.
"""

import hashlib
import hmac
from collections.abc import Iterable

from sightline.serving.facts import Scope, header_values
from sightline.serving.problem import Problem

PUBLIC = frozenset({"/health", "/ready"})
READING = frozenset({"GET", "HEAD"})


class Keys:
    """The keys, as hashes only. Without any, everybody may ask."""

    def __init__(self, keys: Iterable[str], *, read_keys: Iterable[str] = (), public: Iterable[str] = ()) -> None:
        self.reading = [hashed(key.encode("utf-8")) for key in read_keys]
        self.hashes = [hashed(key.encode("utf-8")) for key in keys] + self.reading
        self.public = PUBLIC | set(public)

    def check(self, scope: Scope) -> str | None:
        """Return the caller's name by its key, None where none is needed, and refuse everybody else."""
        if not self.hashes or (scope["path"] in self.public and scope["method"] in READING):
            return None
        presented = presented_keys(scope)
        known = self.known(presented[0]) if len(presented) == 1 else None
        if known is None:
            raise Problem(
                401,
                "this needs a key: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
                headers={"www-authenticate": 'Bearer realm="sightline"'},
            )
        if known in self.reading and scope["method"] not in READING:
            raise Problem(
                403,
                "this key may only read (GET and HEAD): anything else needs a key that was given with --api-key",
                code="read_only_key",
            )
        return f"key-{known.hex()[:8]}"

    def known(self, key: bytes) -> bytes | None:
        """Return the hash of a right key. Every key is compared, in constant time, so that time tells nothing."""
        given = hashed(key)
        found = [known for known in self.hashes if hmac.compare_digest(known, given)]
        return found[0] if found and key else None


def presented_keys(scope: Scope) -> list[bytes]:
    """Return the keys in the headers of a request; keys in addresses are not looked for, as addresses are logged."""
    bearers = [value.partition(b" ") for value in header_values(scope, b"authorization")]
    keys = [rest.strip() if scheme.lower() == b"bearer" else b"" for scheme, _, rest in bearers]
    return keys + header_values(scope, b"x-api-key")


def hashed(key: bytes) -> bytes:
    """Return the hash under which a key is kept."""
    return hashlib.sha256(key).digest()
