"""What is no generation: model lists and descriptions, asked of whichever engine is alive in the order that
traffic would be; stored responses, asked of the engine that holds them.
"""

from __future__ import annotations

import asyncio

from router.core.classes import Wish
from router.core.failure import Failure, Kind, Replay, classify_status
from router.core.headers import request_headers, response_headers
from router.core.routes import Route
from router.core.words import DecisionReason, Path
from router.proxy.attempt import HeldAnswer
from router.proxy.client import Client
from router.proxy.link import EngineLink
from router.proxy.settings import Services
from router.proxy.wish import unavailable

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


async def answer_held(services: Services, client: Client, route: Route) -> None:
    """Relay what the holder of a stored response says of it.

    An id that no answer told (the router was restarted) is looked for: on the active path, and where that
    knows nothing of it on the other. Neither fetching nor cancelling does anything where it is not found.

    Raises:
        Failure: `no_engine`, `path_unavailable`.
    """
    pair = services.pair
    holder = services.affinity.find(route.response_id)
    order = (holder,) if holder else (pair.active_path, pair.active_path.other)
    answers: list[tuple[HeldAnswer, Path]] = []
    for path in order:
        if path not in pair.engines or pair.engines[path].miswired:
            continue
        answer = await _try(services.engines[path], client, route.method.encode(), route.target)
        if answer is not None and answer.status != 404:
            await _pass(client, answer, path)
            return
        if answer is not None:
            answers.append((answer, path))
    if len(answers) < len(pair.engines) and not (holder and answers):
        # One that did not answer may hold it: "not found" would be a claim.
        raise unavailable(Wish(holder, DecisionReason.AFFINITY, only=True) if holder else None)
    await _pass(client, *answers[0])


async def _ask(link: EngineLink, path: Path, client: Client, target: bytes) -> bool:
    """One engine's answer, passed on whole; False if it has none or an error of its own to give."""
    answer = await _try(link, client, b"GET", target)
    if answer is not None:
        await _pass(client, answer, path)
    return answer is not None


async def _try(link: EngineLink, client: Client, method: bytes, target: bytes) -> HeldAnswer | None:
    """One engine's answer; None if it has none or an error of its own to give."""
    try:
        async with asyncio.timeout(link.pool.connect_timeout + ANSWER_LIMIT):
            answer = await _fetch(link, _head(link, client, method, target))
    except (Failure, TimeoutError):
        return None
    return answer if classify_status(answer.status) is None else None


async def _pass(client: Client, answer: HeldAnswer, path: Path) -> None:
    headers = response_headers(answer.headers, keep_length=False)
    headers.append((b"content-length", str(len(answer.body)).encode()))
    headers.append((b"x-router-path", path.value.encode()))
    client.start(answer.status, headers)
    await client.finish(answer.body)


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


def _head(link: EngineLink, client: Client, method: bytes, target: bytes) -> bytes:
    lines = [
        method + b" " + target + b" HTTP/1.1\r\nhost: " + link.host,
        b"x-request-id: " + client.request_id,
    ]
    if method == b"POST":
        lines.append(b"content-length: 0")
    lines += [
        name + b": " + value
        for name, value in request_headers(client.headers, link.api_key)
        if name != b"content-type"
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"
