"""Which headers cross the router (RFC 9110 §7.6.1) and which the router writes itself.

Names are lower case bytes, as ASGI hands them over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Written anew for the engine: where it is, how long the body is, what the request is called.
_REQUEST_OWN = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"x-request-id", b"x-router-path"}
_RESPONSE_OWN = HOP_BY_HOP | {b"x-request-id", b"x-router-path", b"x-router-reason"}
_RESPONSE_REFRAMED = _RESPONSE_OWN | {b"content-length"}

# What identifies the client to the router; replaced when the engine has a key of its own.
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})

_SANE_ID = re.compile(rb"[A-Za-z0-9._~:/+=@-]{1,128}")


def bearer(key: str | None) -> dict[str, str]:
    """The header that shows a key to a server; none without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def connection_options(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Header names that `Connection` declares to be for this hop only, lower case."""
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(option.strip().lower() for option in value.split(b","))
    return frozenset(named)


def request_headers(received: Headers, engine_key: bytes | None) -> Headers:
    """The client's headers that go to the engine. With `engine_key` the client's own credentials do not."""
    drop = _REQUEST_OWN
    if options := connection_options(received):
        drop |= options
    if engine_key is None:
        return [header for header in received if header[0] not in drop]
    drop |= CREDENTIALS
    kept = [header for header in received if header[0] not in drop]
    kept.append((b"authorization", b"Bearer " + engine_key))
    return kept


def response_headers(received: Headers, *, keep_length: bool) -> Headers:
    """The engine's headers that go to the client.

    `keep_length`: the body is passed on as it is and its length is known, so content-length stays true.
    """
    drop = _RESPONSE_OWN if keep_length else _RESPONSE_REFRAMED
    if options := connection_options(received):
        drop |= options
    return [header for header in received if header[0] not in drop]


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of `name`, or None."""
    for key, value in headers:
        if key == name:
            return value
    return None


def sane_request_id(value: bytes | None) -> bytes | None:
    """The client's own `x-request-id` if it is short and printable, else None."""
    return value if value is not None and _SANE_ID.fullmatch(value) else None
