"""B-10: the client goes away in mid-stream, and cleaning up fails as well.

Right value: the engine's connection closes within 1 s; nothing stays counted, whatever else breaks at the
same moment; over 200 runs no drift at all.
"""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from .kit import limits
from .kit.client import RawClient, good
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import FOREVER, ticking
from .kit.sse import content, role
from .kit.waiting import until

# What the engine does wrong here is not the subject: it stays in rotation.
CONFIG = {"breaker": {"failure_threshold": 1000}}


async def read_five(router: RouterProcess, engine: FakeEngine) -> RawClient:
    """A client that has read five events of the engine's stream."""
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    response = await client.started()
    await client.wait(lambda: response.body.count(b"\n\n") >= 5, 5.0, "five events")
    return client


@pytest.mark.parametrize("way", ["rst", "fin"])
async def test_gone(router: RouterProcess, a: FakeEngine, b: FakeEngine, way: str) -> None:
    """B-10: reads five events, then leaves."""
    a.script = ticking(0.05)
    async with router.scraper() as scraper:
        client = await read_five(router, a)
        left = time.monotonic()
        client.rst() if way == "rst" else client.fin()
        assert await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS) <= left + limits.CLOSE_SECONDS
        await assert_quiet(router, a, b, scraper=scraper)


async def test_engine_resets_in_the_same_moment(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-10: RST from both sides within 10 ms, in both orders and at spread moments."""
    a.cancel_on_gone = False
    for number in range(20):
        a.script = ticking(0.01)
        client = await read_five(router, a)
        conn = a.requests[-1].conn
        first, second = (client, conn) if number % 2 else (conn, client)
        first.rst()
        await asyncio.sleep(number / 2000)
        second.rst()
    a.cancel_on_gone = True
    await assert_quiet(router, a, b)


async def test_engine_falls_silent_before(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-10: the engine stops sending right before the client leaves, so no write can fail."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        for _ in range(5):
            await conn.chunk(content("x"))
        await conn.pause(FOREVER)

    a.script = script
    client = await read_five(router, a)
    client.rst()
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("way", ["rst", "fin"])
async def test_window_full(router: RouterProcess, a: FakeEngine, b: FakeEngine, way: str) -> None:
    """B-10: the client stops reading until everything is stuck, then leaves."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(role())
        while True:
            await conn.chunk(b"data: " + b"x" * 65536 + b"\n\n")

    a.script = script
    client = await RawClient.connect(router.data_port, receive_buffer=8192)
    await client.request(good())
    await client.started()
    client.stop_reading()
    conn = a.requests[0].conn
    sent = -1
    while sent != conn.bytes_sent:
        sent = conn.bytes_sent
        await asyncio.sleep(0.2)
    client.rst() if way == "rst" else client.fin()
    await a.wait_closed(conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)


async def test_two_hundred(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-10: 200 clients leave at random moments; no drift in the gauge and nothing blamed on the engine."""
    rng = random.Random(10)
    a.script = ticking(0.03)
    before = await router.metrics()

    async def one() -> None:
        client = await RawClient.connect(router.data_port)
        await client.request(good())
        await asyncio.sleep(rng.uniform(0.0, 2.0))
        client.rst() if rng.random() < 0.5 else client.fin()

    async with router.scraper() as scraper:
        await asyncio.gather(*(one() for _ in range(200)))
        await assert_quiet(router, a, b, scraper=scraper)
    assert scraper.peak["speculative"] <= 200
    metrics = await router.metrics()
    for name, change in {"cancelled": 200, "failed": 0}.items():
        have, had = (m.sum("requests_total", outcome=name) for m in (metrics, before))
        assert have - had == change, name
    assert metrics.sum("breaker_state") == 0


async def test_gone_around_the_end(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-10: the client leaves just as the answer ends; counted once, as one thing or the other."""
    a.script = ticking(0.005, 3)
    before = (await router.metrics()).sum("requests_total")
    for number in range(40):
        client = await RawClient.connect(router.data_port)
        await client.request(good())
        await asyncio.sleep(0.010 + number * 0.0005)
        client.rst()
    metrics = await assert_quiet(router, a, b)
    assert metrics.sum("requests_total") == before + 40


async def test_leaves_and_comes_back(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-10: an impatient user who breaks off and asks again leaves one request open, not many."""
    a.script = ticking(0.02)
    for _ in range(15):
        client = await read_five(router, a)
        client.rst()
        await until(lambda: a.open_requests() <= 1, limits.CLOSE_SECONDS, "the old request ended")
    await assert_quiet(router, a, b)
