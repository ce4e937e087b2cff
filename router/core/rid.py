"""Giving a request an id that the engine knows, so that it can be aborted by name: the one rewrite of a body.

SGLang takes `rid` from the body, returns it as the answer's `id` and aborts by it. It matches by
prefix (`scheduler.py`: `req.rid.startswith`), so ids are of one fixed length and never a client's own.
"""

from __future__ import annotations

# Routes whose bodies take a `rid` (SGLang 0.5.16 to 0.5.23).
RID_ROUTES = frozenset({"/v1/chat/completions", "/v1/completions", "/generate"})

RID_LENGTH = 32


def splice_rid(body: bytes, rid: bytes) -> bytes:
    """`body`, a JSON object, with `"rid"` as its first key; every other byte as it was.

    Args:
        rid: `RID_LENGTH` characters that need no escape.
    """
    if len(rid) != RID_LENGTH:
        raise ValueError(f"a rid has {RID_LENGTH} characters")
    brace = body.index(b"{") + 1
    rest = body[brace:]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return body[:brace] + b'"rid":"' + rid + b'"' + comma + rest
