"""B-17: cancelled requests eat pool slots; the pool is smaller than the load.

Right value: after thousands of requests cancelled while connecting nothing is in use and a request succeeds
at once; as many streams run at once as the configuration says, the rest wait; health checks never fail for
lack of a slot; the number of open files returns.
"""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from .kit.client import End, RawClient, ask, good
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import DONE, role
from .kit.waiting import until

CONFIG = {"policy": {"high": 5000, "low": 4000}, "server": {"max_active": 500, "queue_size": 256}}


async def last_request(router: RouterProcess) -> None:
    """A starved router still meets connections whose clients are gone; each is a request for a moment."""
    seen = -1.0
    while (now := (await router.metrics()).sum("requests_total")) != seen:
        seen = now
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("count", [600, pytest.param(5000, marks=pytest.mark.slow)])
async def test_cancelled_while_connecting(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, count: int
) -> None:
    """B-17 (a), (c): GOOD and RST after 0 to 30 ms, with the engine accepting 20 ms late."""
    rng = random.Random(17)
    await ask(router.data_port, good())
    await asyncio.sleep(0.3)
    files, log_from = router.open_files(), len(router.log)
    a.accept_delay = 0.02
    gate = asyncio.Semaphore(40)

    async def one() -> None:
        async with gate:
            client = await RawClient.connect(router.data_port)
            await client.request(good())
            await asyncio.sleep(rng.uniform(0.0, 0.03))
            client.rst()

    async with router.scraper() as scraper:
        await asyncio.gather(*(one() for _ in range(count)))
        await asyncio.sleep(0.1)  # the engine has read what came over connections that are closed by now
        await until(lambda: a.open_requests() == 0, 2.0, "no request open at the engine")
        await last_request(router)
        started = time.monotonic()
        await assert_quiet(router, a, b, scraper=scraper, log_from=log_from)
        assert time.monotonic() - started < 4.0
    assert "engine d" not in router.log[log_from:], "a health check failed"
    # Pooled connections live on for 4 s.
    await until(lambda: abs(router.open_files() - files) <= 5, 6.0, "open files back to the start")


async def test_many_streams(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-17 (b): 600 streams: the configured 500 reach the engine within 1 s, the rest wait their turn."""
    go_on = asyncio.Event()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(role())
        await go_on.wait()
        await conn.chunk(DONE)
        await conn.end()

    a.script = script
    clients = [await RawClient.connect(router.data_port) for _ in range(600)]
    started = time.monotonic()
    await asyncio.gather(*(client.request(good()) for client in clients))
    await a.wait_requests(500)
    assert time.monotonic() - started <= 2.0
    await asyncio.sleep(0.3)
    metrics = await router.metrics()
    assert len(a.requests) == 500
    assert (metrics.in_flight("speculative"), metrics.in_flight("queue")) == (500, 100)
    assert metrics.sum("engine_up") == 2
    go_on.set()
    responses = await asyncio.gather(*(client.response(0, 20.0) for client in clients))
    assert {(response.status, response.end) for response in responses} == {(200, End.COMPLETE)}
    for client in clients:
        client.fin()
    await assert_quiet(router, a, b)


async def test_leaving_the_queue(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-17: a full house whose waiters and guests all leave at random moments."""
    rng = random.Random(18)

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.pause(60)

    a.script = script
    clients = [await RawClient.connect(router.data_port) for _ in range(700)]
    await asyncio.gather(*(client.request(good()) for client in clients))
    await a.wait_requests(500)
    rng.shuffle(clients)
    for client in clients:
        client.rst() if rng.random() < 0.5 else client.fin()
        if rng.random() < 0.1:
            await asyncio.sleep(0.005)
    await assert_quiet(router, a, b)
