"""Model lists and descriptions: asked of whichever engine is alive, in the order that traffic would be."""

from __future__ import annotations

import asyncio

from router.core.failure import Failure, Kind, Replay, classify_status
from router.core.headers import header, request_headers, response_headers
from router.core.words import Path
from router.proxy.attempt import HeldAnswer
from router.proxy.client import Client
from router.proxy.link import EngineLink
from router.proxy.settings import Services

# These answers come from the engine's memory within milliseconds; a hung engine must not hold them up.
ANSWER_LIMIT = 5.0
MAX_ANSWER = 4 << 20


async def answer_side(services: Services, client: Client, target: bytes) -> None:
    """Relay the answer of the first engine that gives one.

    Raises:
        Failure: `no_engine` if none does.
    """
    pair = services.pair
    active = pair.active_path
    for path in (active, active.other):
        if path in pair.engines and await _ask(services.engines[path], path, client, target):
            return
    raise Failure(Kind.NO_ENGINE)


async def _ask(link: EngineLink, path: Path, client: Client, target: bytes) -> bool:
    """One engine's answer, passed on whole; False if it has none or an error of its own to give."""
    try:
        async with asyncio.timeout(link.pool.connect_timeout + ANSWER_LIMIT):
            answer = await _fetch(link, _head(link, client, target))
    except (Failure, TimeoutError):
        return False
    if classify_status(answer.status) is not None:
        return False
    headers = response_headers(answer.headers, keep_length=False)
    headers.append((b"content-length", str(len(answer.body)).encode()))
    headers.append((b"x-router-path", path.value.encode()))
    client.start(answer.status, headers)
    await client.finish(answer.body)
    return True


async def _fetch(link: EngineLink, head: bytes) -> HeldAnswer:
    """A whole answer; over a fresh connection where a pooled one turns out to be dead.

    Raises:
        Failure: there is none, or it is too large.
    """
    try:
        return await _exchange(link, head, fresh=False)
    except Failure as failure:
        if failure.row.replay is not Replay.SAME:
            raise
    return await _exchange(link, head, fresh=True)


async def _exchange(link: EngineLink, head: bytes, *, fresh: bool) -> HeldAnswer:
    connection = await link.pool.acquire(fresh=fresh)
    try:
        await connection.send(head, b"")
        status, headers = connection.status, connection.headers
        body = bytearray()
        while data := await connection.read():
            body += data
            if len(body) > MAX_ANSWER:
                raise Failure(Kind.PROTOCOL)
        return HeldAnswer(status, headers, bytes(body))
    finally:
        link.pool.release(connection)


def _head(link: EngineLink, client: Client, target: bytes) -> bytes:
    lines = [b"GET " + target + b" HTTP/1.1\r\nhost: " + link.host, b"x-request-id: " + client.request_id]
    lines += [
        name + b": " + value
        for name, value in request_headers(client.headers, link.api_key)
        if name != b"content-type" or header(client.headers, b"content-length")
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"
