"""B-19: a slow reader fills the router's memory.

Right value: the router's memory rises by less than 4 MiB per client; the engine is slowed by TCP; others
notice nothing. Who reads nothing at all is cut after `timeouts.client_write` and gives its slot back; who
reads slowly is not.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from .conftest import RouterFactory
from .kit import limits
from .kit.client import End, RawClient, ask, good, good_ns
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.engine import good as good_script
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import SSE_HEADERS
from .kit.waiting import until

CONFIG = {"timeouts": {"client_write": "2s"}, "routing": {"allow_path_header": True}}
TO_B = (("x-router-path", "baseline"),)
SIZE = 200 * limits.MIB
PER_CLIENT = 4 * limits.MIB
# Kernel buffers of both connections; what passes them was read by the router or by the client.
IN_KERNELS = 24 * limits.MIB


def flood(size: int, piece: int = 64 * 1024, *, stream: bool = True) -> Script:
    """As many bytes as fast as they go."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        if stream:
            await conn.head(headers=SSE_HEADERS)
        else:
            await conn.head(headers=(("content-type", "application/json"),))
        data = b"data: " + b"x" * (piece - 8) + b"\n\n"
        for _ in range(size // piece):
            await conn.chunk(data)
        await conn.end()

    return script


async def settled(engine: FakeEngine, within: float = 8.0) -> None:
    """Wait until the engine's sends have come to a stop."""
    deadline, sent = time.monotonic() + within, -1
    while (now := sum(request.conn.bytes_sent for request in engine.requests)) != sent:
        assert time.monotonic() < deadline, "the engine is never slowed"
        sent = now
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("seconds", [4.0, pytest.param(90.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("data", [good(), good_ns()], ids=["stream", "whole"])
@pytest.mark.timeout(200)
async def test_ten_slow_readers(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, data: bytes, seconds: float
) -> None:
    """B-19: ten clients at 10 KiB/s, longer than the stall limit; others go on, nobody is cut."""
    await ask(router.data_port, good(TO_B))
    before = router.rss_bytes()
    a.script = flood(SIZE, stream=data == good())
    clients = [await RawClient.connect(router.data_port, receive_buffer=65536) for _ in range(10)]
    for client in clients:
        client.read_slowly(1024, 0.1)
        await client.request(data)
    peak, ends = before, time.monotonic() + seconds
    waits = []
    while time.monotonic() < ends:
        started = time.monotonic()
        assert (await ask(router.data_port, good(TO_B))).path == "baseline"
        waits.append(time.monotonic() - started)
        peak = max(peak, router.rss_bytes())
        await asyncio.sleep(0.1)
    assert sorted(waits)[-2] <= limits.STALL
    assert peak - before < 10 * PER_CLIENT
    assert all(request.conn.bytes_sent < IN_KERNELS for request in a.requests)
    assert {client.responses[0].end for client in clients} == {End.OPEN}, "a slow reader was cut"
    for client in clients:
        client.rst()
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("data", [good(), good_ns()], ids=["stream", "whole"])
async def test_never_reads(router: RouterProcess, a: FakeEngine, b: FakeEngine, data: bytes) -> None:
    """B-19: one that never reads is cut after the limit; not the engine's fault; its slot is free again."""
    before = router.rss_bytes()
    failed = (await router.metrics()).sum("requests_total", outcome="failed")
    a.script = flood(SIZE, stream=data == good())
    client = await RawClient.connect(router.data_port, receive_buffer=65536)
    client.stop_reading()
    await client.request(data)
    await a.wait_requests(1)
    await settled(a)
    assert (await router.metrics()).in_flight("speculative") == 1
    assert router.rss_bytes() - before < PER_CLIENT
    await a.wait_closed(a.requests[0].conn, 4.0)
    metrics = await assert_quiet(router, a, b)
    assert metrics.sum("failures_total", kind="client_stalled") >= 1
    assert metrics.sum("requests_total", outcome="failed") == failed
    assert metrics.sum("breaker_state") == 0
    client.fin()


async def test_pauses_below_the_limit(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-19: a reader who stops for less than the limit, again and again, gets every byte."""
    a.script = flood(40 * limits.MIB)
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    for _ in range(3):
        await asyncio.sleep(0.3)
        client.stop_reading()
        await asyncio.sleep(1.2)
        client.start_reading()
    response = await client.response(within=20)
    assert (response.end, len(response.body)) == (End.COMPLETE, 40 * limits.MIB)
    client.fin()


async def test_stalled_with_a_quiet_engine(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-19: a client may be slow to read a stream that fits into buffers; that is no stall."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        for _ in range(20):
            await conn.chunk(b"data: {}\n\n")
            await conn.pause(0.15)
        await conn.end()

    a.script = script
    client = await RawClient.connect(router.data_port)
    client.stop_reading()
    await client.request(good())
    await asyncio.sleep(3.5)
    client.start_reading()
    assert (await client.response()).end is End.COMPLETE
    client.fin()


async def test_stalled_before_an_error(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-19: an engine breaks off while its client does not read: both end all the same."""
    router = await router_factory({"breaker": {"failure_threshold": 100}})

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        for _ in range(2000):
            await asyncio.wait_for(conn.chunk(b"data: " + b"x" * 65536 + b"\n\n"), 0.5)

    async def until_stuck(conn: EngineConn, request: RawRequest) -> None:
        try:
            await script(conn, request)
        except TimeoutError:
            conn.rst()

    a.script = until_stuck
    client = await RawClient.connect(router.data_port, receive_buffer=65536)
    client.stop_reading()
    await client.request(good())
    await until(lambda: bool(a.requests) and a.requests[0].conn.closed, 8.0, "the engine has broken off")
    deadline = time.monotonic() + 9.0
    while (await router.metrics()).in_flight("speculative"):
        assert time.monotonic() < deadline, "still counted"
        await asyncio.sleep(0.1)
    a.script = good_script
    await assert_quiet(router, a, b)
    client.fin()


async def test_big_prompt_echo(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-19: tiny events in great number to a slow reader are bounded too."""
    before = router.rss_bytes()
    a.script = flood(30 * limits.MIB, 64)
    client = await RawClient.connect(router.data_port, receive_buffer=8192)
    client.read_slowly(1024, 0.1)
    await client.request(good())
    await settled(a, 15.0)
    assert router.rss_bytes() - before < PER_CLIENT
    client.rst()
    await assert_quiet(router, a, b)
