"""Keys that clients must show. Compared as digests, in constant time, and never kept in clear."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from router.core.headers import Headers, header


class ClientKeys:
    """The accepted keys; none means that the router is open.

    Args:
        entries: secrets, or `sha256:` and the 64 hex digits of a secret's digest.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._digests = tuple(_digest(entry) for entry in entries)

    def accept(self, headers: Headers) -> bool:
        """True if the request shows an accepted key as a bearer token or as `x-api-key`."""
        if not self._digests:
            return True
        shown = _shown_key(headers)
        if shown is None:
            return False
        digest = hashlib.sha256(shown).digest()
        # Every entry is compared, so that the time taken does not tell which one matched.
        return sum(hmac.compare_digest(digest, accepted) for accepted in self._digests) > 0


def _digest(entry: str) -> bytes:
    if entry.startswith("sha256:"):
        return bytes.fromhex(entry.removeprefix("sha256:"))
    return hashlib.sha256(entry.encode()).digest()


def _shown_key(headers: Headers) -> bytes | None:
    value = header(headers, b"authorization")
    if value is not None:
        scheme, _, key = value.partition(b" ")
        return key.strip() if scheme.lower() == b"bearer" else None
    return header(headers, b"x-api-key")
