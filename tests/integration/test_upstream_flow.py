"""Flow of bytes to and from an engine: back-pressure, uploads, answers before the end of an upload."""

from __future__ import annotations

import asyncio

import pytest

from router.core.failure import Failure, Kind
from router.upstream.connection import HIGH_WATER
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.waiting import until
from tests.support.upstream import EMPTY, OK, call, failure_of, head_of, pool_of, read_all, saying

MIB = 1 << 20
# One read of an event loop, on top of what was there when reading should have paused.
ONE_READ = 256 * 1024


async def test_a_slow_reader_slows_the_engine_and_costs_no_memory(a: FakeEngine) -> None:
    total = 50 * MIB

    async def flood(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(OK + b"content-length: %d\r\n\r\n" % total)
        for _ in range(total // 65536):
            await conn.body(b"x" * 65536)

    a.script = flood
    pool = pool_of(a)
    connection = await pool.acquire()
    await connection.send(head_of(), b"")
    request = a.requests[0]

    def sent() -> int:
        return request.marks[-1].body_bytes if request.marks else 0

    before = -1
    while sent() != before:  # until the engine's send buffer is full too
        before = sent()
        await asyncio.sleep(0.1)
    assert sent() < total
    first = await connection.read()
    assert len(first) <= HIGH_WATER + ONE_READ
    size = len(first)
    while data := await connection.read():
        assert len(data) <= HIGH_WATER + ONE_READ
        size += len(data)
    assert size == total
    assert connection.reusable
    pool.release(connection)
    pool.close()


async def test_one_read_at_a_time_delivers_at_once(a: FakeEngine) -> None:
    """What has arrived is handed over without waiting for more."""
    more = asyncio.Event()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(b"first")
        await more.wait()
        await conn.chunk(b"second")
        await conn.end()

    a.script = script
    pool = pool_of(a)
    connection = await pool.acquire()
    await connection.send(head_of(), b"")
    assert await asyncio.wait_for(connection.read(), 1.0) == b"first"
    assert not connection.ended
    more.set()
    assert await asyncio.wait_for(read_all(connection), 1.0) == b"second"
    assert connection.ended
    pool.release(connection)
    pool.close()


async def test_a_large_upload_arrives_whole_and_does_not_hold_the_loop(a: FakeEngine) -> None:
    body = bytes(range(256)) * (8 * MIB // 256)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    pool = pool_of(a)
    ticker = asyncio.create_task(tick())
    assert (await call(pool, body)).status == 200
    ticker.cancel()
    assert a.requests[0].body == body
    assert ticks > 20
    assert pool.idle == 1
    pool.close()


async def test_an_engine_that_reads_slowly_stops_the_upload(a: FakeEngine) -> None:
    """Nothing more is written than the kernel takes; the rest follows as the engine reads."""
    a.call_at = "head"
    go = asyncio.Event()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        conn.stop_reading()
        await go.wait()
        conn.start_reading()
        await conn.whole_body(request)
        await conn.send(EMPTY)

    a.script = script
    body = b"x" * (32 * MIB)
    pool = pool_of(a)
    running = asyncio.create_task(call(pool, body))
    await a.wait_requests(1)
    await asyncio.sleep(0.1)
    assert not running.done()
    go.set()
    assert (await running).status == 200
    assert len(a.requests[0].body) == len(body)
    pool.close()


async def test_an_answer_before_the_end_of_an_upload_is_heard(a: FakeEngine) -> None:
    a.call_at = "head"

    async def script(conn: EngineConn, request: RawRequest) -> None:
        conn.stop_reading()
        await conn.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await asyncio.sleep(5)

    a.script = script
    pool = pool_of(a)
    answer = await asyncio.wait_for(call(pool, b"x" * (64 * MIB)), 3.0)
    assert (answer.status, answer.body, answer.reusable) == (413, b"big", False)
    assert pool.idle == 0
    pool.close()


async def test_an_engine_that_dies_during_an_upload(a: FakeEngine) -> None:
    a.call_at = "head"
    a.script = saying(then="rst")
    pool = pool_of(a)
    assert await asyncio.wait_for(failure_of(pool, b"x" * (64 * MIB)), 3.0) is Kind.RESET
    assert (pool.idle, pool.in_use) == (0, 0)
    pool.close()


@pytest.mark.parametrize("said", [b"", OK + b"content-length: 5\r\n\r\nhe"], ids=["head", "body"])
async def test_failing_from_outside_wakes_whoever_waits(a: FakeEngine, said: bytes) -> None:
    a.script = saying(said)
    pool = pool_of(a)
    connection = await pool.acquire()

    async def use() -> bytes:
        await connection.send(head_of(), b"")
        return await read_all(connection)

    task = asyncio.create_task(use())
    await a.wait_requests(1)
    await until(lambda: a.requests[0].finished_at, 1.0)
    connection.fail(Failure(Kind.IDLE_TIMEOUT))
    with pytest.raises(Failure) as caught:
        await asyncio.wait_for(task, 1.0)
    assert caught.value.kind is Kind.IDLE_TIMEOUT
    pool.release(connection)
    assert pool.idle == 0
    pool.close()
