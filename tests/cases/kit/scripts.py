"""What engines do in many cases: nothing, one event after another, an error, a reset."""

from __future__ import annotations

from .conn import EngineConn, Fields, RawRequest
from .engine import Script
from .sse import DONE, JSON_HEADERS, SSE_HEADERS, content, error_body, role

FOREVER = 600.0


async def silent(conn: EngineConn, request: RawRequest) -> None:
    """Read the request and answer nothing."""
    await conn.pause(FOREVER)


async def head_only(conn: EngineConn, request: RawRequest) -> None:
    """Send the head of a stream and no body."""
    await conn.head()
    await conn.pause(FOREVER)


async def reset(conn: EngineConn, request: RawRequest) -> None:
    """RST instead of an answer."""
    conn.rst()


async def accept_and_reset(conn: EngineConn) -> None:
    """For `on_accept`: RST before anything is read."""
    conn.rst()


async def serve_probes_only(conn: EngineConn) -> None:
    """For `on_accept`: RST on connections whose first request is no probe."""
    while conn.peer_gone_at is None and not conn.requests:
        await conn.news()
    if conn.requests and conn.requests[0].method == "POST":
        conn.rst()


def ticking(gap: float, count: int = 100_000) -> Script:
    """A stream of `count` events, `gap` seconds apart, with a proper end."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(role())
        for number in range(count):
            await conn.pause(gap)
            await conn.chunk(content(f" {number}"))
        await conn.chunk(DONE)
        await conn.end()

    return script


def after(seconds: float, script: Script) -> Script:
    """The same, begun later."""

    async def late(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(seconds)
        await script(conn, request)

    return late


def replying(status: str, body: bytes | None = None, headers: Fields = JSON_HEADERS) -> Script:
    """A whole answer; an error body of SGLang's if none is given."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(error_body(int(status[:3])) if body is None else body, status, headers)

    return script


def breaking(events: list[bytes], headers: Fields = SSE_HEADERS, *, end: str = "rst") -> Script:
    """The head and the events, then RST, or FIN without the last chunk."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head(headers=headers)
        for item in events:
            await conn.chunk(item)
        # What an engine sends right before a reset may be dropped by the kernel of its peer.
        await conn.pause(0.05)
        conn.rst() if end == "rst" else conn.fin()

    return script
