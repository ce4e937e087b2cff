"""What tests of the upstream client share: a pool for a scripted engine, requests, whole answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from router.core.failure import Failure, Kind
from router.upstream.connection import Connection
from router.upstream.pool import Pool
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine, Script


def pool_of(engine: FakeEngine, *, connect_timeout: float = 2.0, idle_expiry: float = 4.0) -> Pool:
    """A pool for that engine."""
    return Pool("127.0.0.1", engine.port, connect_timeout=connect_timeout, idle_expiry=idle_expiry)


def head_of(length: int = 0, target: str = "/generate") -> bytes:
    """The head of a POST with a body of that many bytes."""
    return f"POST {target} HTTP/1.1\r\nhost: engine.test\r\ncontent-length: {length}\r\n\r\n".encode()


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole answer, and whether its connection could be used again."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    reusable: bool


async def read_all(connection: Connection) -> bytes:
    """The body, as it comes."""
    body = bytearray()
    while data := await connection.read():
        body += data
    return bytes(body)


async def call(pool: Pool, body: bytes = b"") -> Whole:
    """One request over the pool, given back at its end."""
    connection = await pool.acquire()
    try:
        async with asyncio.timeout(10):
            await connection.send(head_of(len(body)), body)
            status, headers = connection.status, dict(connection.headers)
            return Whole(status, headers, await read_all(connection), connection.reusable)
    finally:
        pool.release(connection)


async def failure_of(pool: Pool, body: bytes = b"") -> Kind:
    """The failure in which a request ends; it is an error if it does not."""
    try:
        answer = await call(pool, body)
    except Failure as failure:
        return failure.kind
    raise AssertionError(f"an answer instead of a failure: {answer}")


def saying(*pieces: bytes, then: str = "stay") -> Script:
    """An engine that sends these bytes, and then stays connected, sends FIN (`fin`) or RST (`rst`)."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        for piece in pieces:
            await conn.send(piece)
            await asyncio.sleep(0.01)
        if then == "fin":
            conn.fin()
        elif then == "rst":
            conn.rst()

    return script


OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"content-length: 0\r\n\r\n"
