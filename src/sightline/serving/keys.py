"""Who may ask: with keys given, everything needs one, apart from the few addresses that are named as public."""

import hashlib
import hmac
from collections.abc import Iterable

from sightline.serving.facts import Scope, header_values
from sightline.serving.problem import Problem

PUBLIC = frozenset({"/health", "/ready"})
PUBLIC_METHODS = frozenset({"GET", "HEAD"})


class Keys:
    """The keys, as hashes only. Without any, everybody may ask."""

    def __init__(self, keys: Iterable[str], *, public: Iterable[str] = ()) -> None:
        self.hashes = [hashed(key.encode("utf-8")) for key in keys]
        self.public = PUBLIC | set(public)

    def check(self, scope: Scope) -> str | None:
        """Return the caller's name by its key, None where none is needed, and refuse everybody else."""
        if not self.hashes or (scope["path"] in self.public and scope["method"] in PUBLIC_METHODS):
            return None
        presented = presented_keys(scope)
        name = self.name_of(presented[0]) if len(presented) == 1 else None
        if name is None:
            raise Problem(
                401,
                "this needs a key: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
                headers={"www-authenticate": 'Bearer realm="sightline"'},
            )
        return name

    def name_of(self, key: bytes) -> str | None:
        """Return a name for a right key. Every key is compared, in constant time, so that time tells nothing."""
        given = hashed(key)
        found = [known for known in self.hashes if hmac.compare_digest(known, given)]
        return f"key-{found[0].hex()[:8]}" if found and key else None


def presented_keys(scope: Scope) -> list[bytes]:
    """Return the keys in the headers of a request; keys in addresses are not looked for, as addresses are logged."""
    bearers = [value.partition(b" ") for value in header_values(scope, b"authorization")]
    keys = [rest.strip() if scheme.lower() == b"bearer" else b"" for scheme, _, rest in bearers]
    return keys + header_values(scope, b"x-api-key")


def hashed(key: bytes) -> bytes:
    """Return the hash under which a key is kept."""
    return hashlib.sha256(key).digest()
