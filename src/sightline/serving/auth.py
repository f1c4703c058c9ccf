"""API keys: if the server has any, every request needs one, except for the public paths.

A read-only key is good for GET and HEAD only, which is what Prometheus needs.
"""

import hashlib
import hmac
from collections.abc import Iterable

from sightline.serving.problem import Problem
from sightline.serving.request_context import Scope, header_values

PUBLIC = frozenset({"/health", "/ready"})
READ_METHODS = frozenset({"GET", "HEAD"})


class Authenticator:
    """Checks API keys, of which it keeps only the hashes. Without keys, every request passes."""

    def __init__(self, keys: Iterable[str], *, read_only_keys: Iterable[str] = (), public: Iterable[str] = ()) -> None:
        self.read_only_hashes = [hash_key(key.encode("utf-8")) for key in read_only_keys]
        self.hashes = [hash_key(key.encode("utf-8")) for key in keys] + self.read_only_hashes
        self.public = PUBLIC | set(public)

    def check(self, scope: Scope) -> str | None:
        """Return the client's id by its key, or None if no key is needed; refuse all others."""
        if not self.hashes or (scope["path"] in self.public and scope["method"] in READ_METHODS):
            return None
        presented = presented_keys(scope)
        known = self.match(presented[0]) if len(presented) == 1 else None
        if known is None:
            raise Problem(
                401,
                "API key missing or wrong: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
                headers={"www-authenticate": 'Bearer realm="sightline"'},
            )
        if known in self.read_only_hashes and scope["method"] not in READ_METHODS:
            raise Problem(
                403,
                "this key is read-only (GET and HEAD): other methods need a key given with --api-key",
                code="read_only_key",
            )
        return f"key-{known.hex()[:8]}"

    def match(self, key: bytes) -> bytes | None:
        """Return the hash of a valid key, else None; compares all in constant time, so that timing leaks nothing."""
        given = hash_key(key)
        found = [known for known in self.hashes if hmac.compare_digest(known, given)]
        return found[0] if found and key else None


def presented_keys(scope: Scope) -> list[bytes]:
    """Return the keys in a request's headers; keys in URLs are ignored, as URLs are logged."""
    bearers = [value.partition(b" ") for value in header_values(scope, b"authorization")]
    keys = [rest.strip() if scheme.lower() == b"bearer" else b"" for scheme, _, rest in bearers]
    return keys + header_values(scope, b"x-api-key")


def hash_key(key: bytes) -> bytes:
    """Return the hash of a key."""
    return hashlib.sha256(key).digest()
