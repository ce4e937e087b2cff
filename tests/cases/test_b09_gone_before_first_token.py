"""B-09: the client goes away before the first token.

Right value: the engine's connection closes within 1 s of the client's going; in-flight drops with it; the
request counts as cancelled, never as a failure of the engine, whose breaker does not move.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from .conftest import RouterFactory
from .kit import limits
from .kit.client import RawClient, chat_body, good, good_ns, post_chunked
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import head_only, silent
from .kit.waiting import until

REQUESTS = {"stream": good(), "whole": good_ns()}
SCRIPTS = {"nothing_sent": silent, "head_sent": head_only}


async def assert_cancelled(router: RouterProcess, before: float, count: int) -> None:
    """So many more cancelled requests, and nothing that blames the engine."""
    metrics = await router.metrics()
    assert metrics.sum("requests_total", outcome="cancelled") == before + count
    assert metrics.sum("requests_total", outcome="failed") == 0
    assert metrics.sum("failures_total") == metrics.sum("failures_total", kind="client_gone")
    assert metrics.sum("breaker_state") == 0
    assert metrics.sum("retries_total") == 0
    assert metrics.sum("engine_up") == 2


async def cancelled(router: RouterProcess) -> float:
    """Requests counted as cancelled so far."""
    return (await router.metrics()).sum("requests_total", outcome="cancelled")


def leave(client: RawClient, way: str) -> None:
    """Close with FIN or RST."""
    client.fin() if way == "fin" else client.rst()


@pytest.mark.parametrize("way", ["fin", "rst"])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS)
async def test_gone(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, data: bytes, script: Script, way: str
) -> None:
    """B-09 (a), (b): FIN or RST while the engine is still silent, streamed and not, a head sent or none."""
    a.script = script
    before = await cancelled(router)
    async with router.scraper() as scraper:
        client = await RawClient.connect(router.data_port)
        await client.request(data)
        await a.wait_requests(1)
        await asyncio.sleep(0.3)
        assert (await router.metrics()).in_flight("speculative") == 1
        left = time.monotonic()
        leave(client, way)
        closed = await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
        assert left <= closed <= left + limits.CLOSE_SECONDS
        await assert_quiet(router, a, b, scraper=scraper)
    await assert_cancelled(router, before, 1)
    assert not client.responses


@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS)
async def test_half_close(router: RouterProcess, a: FakeEngine, b: FakeEngine, data: bytes) -> None:
    """B-09 (c): a half-close may end the request or not; the state is clean once the client is gone."""
    a.script = silent
    client = await RawClient.connect(router.data_port)
    await client.request(data)
    await a.wait_requests(1)
    client.half_close()
    await asyncio.sleep(0.5)
    client.fin()
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("way", ["fin", "rst"])
@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS)
async def test_fifty(router: RouterProcess, a: FakeEngine, b: FakeEngine, data: bytes, way: str) -> None:
    """B-09 with 50 clients together."""
    a.script = silent
    before = await cancelled(router)
    async with router.scraper() as scraper:
        clients = [await RawClient.connect(router.data_port) for _ in range(50)]
        await asyncio.gather(*(client.request(data) for client in clients))
        await a.wait_requests(50)
        for client in clients:
            leave(client, way)
        await until(lambda: a.open_requests() == 0, limits.CLOSE_SECONDS, "all engine connections closed")
        await assert_quiet(router, a, b, scraper=scraper)
    assert scraper.peak["speculative"] <= 50
    await assert_cancelled(router, before, 50)


async def test_gone_while_queued(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-09: gone while waiting in the router's own queue; no engine is ever asked."""
    router = await router_factory({"server": {"max_active": 1, "queue_size": 10}})
    a.script = silent
    first = await RawClient.connect(router.data_port)
    await first.request(good())
    await a.wait_requests(1)
    waiting = [await RawClient.connect(router.data_port) for _ in range(5)]
    for client in waiting:
        await client.request(good())
    deadline = time.monotonic() + 2
    while (await router.metrics()).in_flight("queue") != 5:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    for number, client in enumerate(waiting):
        leave(client, "fin" if number % 2 else "rst")
    while (await router.metrics()).in_flight("queue") != 0:
        assert time.monotonic() < deadline + 2
        await asyncio.sleep(0.02)
    assert len(a.requests) == 1
    first.rst()
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)
    assert len(b.requests) == 0
    await assert_cancelled(router, 0, 6)


async def test_gone_while_connecting(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-09: gone while the connection to the engine is being made; nobody else is asked instead."""
    router = await router_factory({"timeouts": {"connect": "5s"}})
    a.drop_syns()
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    deadline = time.monotonic() + 2
    while (await router.metrics()).in_flight("speculative") != 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    client.rst()
    while (await router.metrics()).in_flight("speculative") != 0:
        assert time.monotonic() < deadline + 1
        await asyncio.sleep(0.02)
    a.up()
    assert b.requests == []
    assert (await router.metrics()).sum("requests_total", outcome="cancelled") == 1


@pytest.mark.parametrize("way", ["fin", "rst"])
async def test_gone_right_after_the_last_body_byte(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, way: str
) -> None:
    """Kin of B-09: the request and the client's going arrive together, whole and chunked."""
    a.script = silent
    for data in (good(), good_ns(), post_chunked([chat_body(stream=True)])) * 5:
        client = await RawClient.connect(router.data_port)
        await client.request(data)
        leave(client, way)
    await assert_quiet(router, a, b)
    assert (await router.metrics()).sum("requests_total", outcome="failed") == 0


async def test_gone_while_a_retry_runs(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-09: the first engine refused, the second is silent, the client leaves."""

    async def busy(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(b"{}", "503 Service Unavailable")

    a.script, b.script = busy, silent
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    await b.wait_requests(1)
    client.rst()
    await b.wait_closed(b.requests[0].conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)


async def test_pipelined_request_behind_it(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-09: a second request waits behind the first on the connection when the client leaves."""
    a.script = silent
    client = await RawClient.connect(router.data_port)
    await client.request(good() + good_ns())
    await a.wait_requests(1)
    client.rst()
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    await assert_quiet(router, a, b)
