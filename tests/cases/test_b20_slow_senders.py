"""B-20: slow senders hold connections.

Right value: ordinary traffic is not affected; incomplete requests are closed (408 or plainly) after a
configured limit; they never count as in flight and never move the switch. Times are scaled to a limit of 1 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from .conftest import RouterFactory
from .kit import limits
from .kit.client import CHAT, RawClient, ask, assert_openai_error, chat_body, good, request_bytes
from .kit.conn import Fields
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import ticking
from .kit.waiting import until

CONFIG = {
    "timeouts": {"client_header": "1s", "client_body": "1s"},
    "policy": {"high": 8, "low": 3, "dwell": "0s", "smoothing": "0s"},
}
JSON: Fields = (("content-type", "application/json"),)
SIZED = request_bytes("POST", CHAT, (*JSON, ("content-length", "1000000")), b"")
CHUNKED = request_bytes("POST", CHAT, (*JSON, ("transfer-encoding", "chunked")))
HUGE = request_bytes("POST", CHAT, (*JSON, ("content-length", str(60 * limits.MIB))), b"")
COUNT = 200
# The router goes on reading for so long behind an answer, that it may reach a client who is still sending.
LINGER = 5.0


async def trickle(client: RawClient, data: bytes, gap: float) -> None:
    """One byte after another until the other side closes."""
    with contextlib.suppress(OSError):
        for at in range(len(data)):
            if client.peer_gone_at is not None:
                return
            await client.send(data[at : at + 1])
            await asyncio.sleep(gap)


@asynccontextmanager
async def crowd(
    router: RouterProcess, start: bytes, drip: bytes, gap: float, count: int = COUNT
) -> AsyncIterator[list[RawClient]]:
    """Clients that send `start` at once and then a byte of `drip` each `gap` seconds."""
    clients = [await RawClient.connect(router.data_port) for _ in range(count)]
    if start:
        await asyncio.gather(*(client.request(start) for client in clients))
    tasks = [asyncio.create_task(trickle(client, drip, gap)) for client in clients]
    try:
        yield clients
    finally:
        for task in tasks:
            task.cancel()
        for client in clients:
            client.fin()


async def assert_undisturbed(router: RouterProcess, seconds: float) -> None:
    """GOOD traffic goes to the speculative engine without delay, and nobody else counts."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        started = time.monotonic()
        response = await ask(router.data_port, good())
        assert (response.status, response.path) == (200, "speculative")
        assert time.monotonic() - started <= limits.STALL
        metrics = await router.metrics()
        assert metrics.sum("in_flight") == 0
        await asyncio.sleep(0.05)
    assert (await router.metrics()).sum("switches_total") == 0


def refused(clients: list[RawClient]) -> bool:
    """All closed by the router or answered."""
    return all(client.peer_gone_at is not None or client.responses for client in clients)


def gone(clients: list[RawClient]) -> bool:
    """All closed by the router."""
    return all(client.peer_gone_at is not None for client in clients)


DRIPS = {
    "head": (b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 1000),
    "sized_body": (SIZED, b"{" + b" " * 1000),
    "chunked_body": (CHUNKED, b"1\r\n{\r\n" + b"1\r\n \r\n" * 1000),
    "chunk_size_line": (CHUNKED, b"0" * 2000),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"x-t: " + b"y" * 1000),
    "silent": (b"", b""),
    "silent_after_half_a_head": (SIZED[:40], b""),
    "silent_after_the_head": (SIZED, b""),
}


@pytest.mark.parametrize(("start", "drip"), DRIPS.values(), ids=DRIPS)
async def test_slow_senders(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, start: bytes, drip: bytes
) -> None:
    """B-20: a byte each 0.25 s, far more often than the limit: closed all the same."""
    async with router.scraper() as scraper, crowd(router, start, drip, 0.25) as clients:
        await assert_undisturbed(router, 1.0)
        await until(lambda: refused(clients), 3.0, "all refused")
        for client in clients:
            for response in client.responses:
                assert_openai_error(response, 408)
        assert max(scraper.peak.values()) <= 1
    await assert_quiet(router, a, b, scraper=scraper)
    assert (await router.metrics()).sum("switches_total") == 0
    assert (await router.metrics()).sum("requests_total", outcome="failed") == 0


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(("start", "drip"), list(DRIPS.values())[:2], ids=list(DRIPS)[:2])
async def test_slow_senders_full(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, start: bytes, drip: bytes
) -> None:
    """B-20 as written: 500 connections, a byte each 5 s, default limits."""
    router = await router_factory({"timeouts": {"client_header": "15s", "client_body": "60s"}})
    async with crowd(router, start, drip, 5.0, 500) as clients:
        await assert_undisturbed(router, 10.0)
        await until(lambda: gone(clients), 130.0, "all closed by the router")
    await assert_quiet(router, a, b)


async def test_declared_sizes_take_no_memory(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-20: senders who announce large bodies and send nothing must not use up the body memory."""
    router = await router_factory({"timeouts": {"client_body": "5s"}, "server": {"queue_timeout": "1s"}})
    async with crowd(router, HUGE, b"{", 0.25, 60):
        await assert_undisturbed(router, 1.5)


async def test_the_connection_ends(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-20: the answer is not the end of it: the connection goes as well, though its client still sends."""
    async with crowd(router, SIZED, b"{" + b" " * 1000, 0.25, 5) as clients:
        await until(lambda: gone(clients), 1.0 + LINGER + 2.0, "all closed by the router")


async def test_slow_but_honest(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-20: an upload over a slow line, longer than the limit as a whole, is served."""
    body = chat_body(stream=True, padding="x" * 60_000)
    head = request_bytes("POST", CHAT, (*JSON, ("content-length", str(len(body)))))
    async with await RawClient.connect(router.data_port) as client:
        await client.request(head)
        for at in range(0, len(body), 4096):
            await client.send(body[at : at + 4096])
            await asyncio.sleep(0.2)
        assert (await client.response()).status == 200
    assert bytes(a.requests[0].body) == body


async def test_second_head_is_limited_too(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-20: on a kept connection the next head has the same limit."""
    client = await RawClient.connect(router.data_port)
    assert (await client.ask(good())).status == 200
    task = asyncio.create_task(trickle(client, SIZED, 0.25))
    await until(lambda: client.peer_gone_at is not None, 3.0, "closed by the router")
    await task
    client.fin()


async def test_idle_is_not_slow(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-20: a kept connection that waits between two requests is not a slow head."""
    async with await RawClient.connect(router.data_port) as client:
        for _ in range(2):
            assert (await client.ask(good())).status == 200
            await asyncio.sleep(1.6)
        assert (await client.ask(good())).status == 200


async def test_long_answer_is_not_a_slow_head(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-20: the limits on sending end with the request."""
    a.script = ticking(0.3, 8)
    assert (await ask(router.data_port, good())).status == 200
