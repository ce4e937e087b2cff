"""Connections to an engine are kept, reused newest first, given up in time, and never leak."""

from __future__ import annotations

import asyncio
import time

from router.core.failure import Kind
from router.upstream.pool import IDLE_EXPIRY
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.waiting import until
from tests.support.upstream import EMPTY, call, failure_of, head_of, pool_of, read_all, saying

# SGLANG_TIMEOUT_KEEP_ALIVE of SGLang.
ENGINE_KEEP_ALIVE = 5.0


async def test_a_connection_is_used_again(a: FakeEngine) -> None:
    pool = pool_of(a)
    for _ in range(5):
        assert (await call(pool)).status == 200
    assert (a.accepted, pool.idle, pool.in_use) == (1, 1, 0)
    pool.close()


async def test_the_newest_is_taken_first(a: FakeEngine) -> None:
    pool = pool_of(a)
    first, second, third = [await pool.acquire() for _ in range(3)]
    for connection in (first, second, third):
        await connection.send(head_of(), b"")
        await read_all(connection)
        pool.release(connection)
    assert [await pool.acquire() for _ in range(3)] == [third, second, first]
    assert (pool.idle, pool.in_use) == (0, 3)
    pool.close()


async def test_fresh_means_fresh(a: FakeEngine) -> None:
    pool = pool_of(a)
    await call(pool)
    connection = await pool.acquire(fresh=True)
    assert (a.accepted, pool.idle) == (2, 1)
    pool.release(connection)
    pool.close()


async def test_idle_connections_are_closed_before_the_engine_would(a: FakeEngine) -> None:
    assert ENGINE_KEEP_ALIVE / 2 < IDLE_EXPIRY <= ENGINE_KEEP_ALIVE - 0.5
    pool = pool_of(a, idle_expiry=0.15)
    await asyncio.gather(*(call(pool) for _ in range(4)))
    began = time.monotonic()
    assert pool.idle == 4
    await until(lambda: pool.idle == 0, 2.0, "the sweeper")
    assert time.monotonic() - began >= 0.14
    await until(lambda: not a.live, 2.0, "the engine sees them closed")
    pool.close()


async def test_a_busy_connection_outlives_idle_ones(a: FakeEngine) -> None:
    """Last in, first out: what a burst opened is closed although requests go on."""
    pool = pool_of(a, idle_expiry=0.2)
    await asyncio.gather(*(call(pool) for _ in range(3)))
    assert pool.idle == 3

    async def trickle() -> None:
        while pool.idle > 1:
            await call(pool)
            await asyncio.sleep(0.02)

    await asyncio.wait_for(trickle(), 2.0)
    assert a.accepted == 3
    assert len(a.live) == 1 or await until(lambda: len(a.live) == 1, 1.0)
    pool.close()


async def test_an_expired_connection_is_not_used_even_before_the_sweep(a: FakeEngine) -> None:
    pool = pool_of(a, idle_expiry=0.1)
    await call(pool)
    time.sleep(0.15)  # noqa: ASYNC251 - the loop is late, so the sweeper is too
    await call(pool)
    assert a.accepted == 2
    pool.close()


async def test_one_closed_by_the_engine_is_skipped(a: FakeEngine) -> None:
    pool = pool_of(a)
    await asyncio.gather(call(pool), call(pool))
    newest = await pool.acquire()
    await newest.send(head_of(), b"")
    await read_all(newest)
    pool.release(newest)
    a.conns[-1].fin()
    await until(lambda: newest.is_closed or len(a.live) == 1, 1.0)
    await asyncio.sleep(0.02)
    assert (await call(pool)).status == 200
    assert a.accepted == 2
    pool.close()


async def test_a_connection_that_dies_unanswered_is_stale_only_if_it_was_used(a: FakeEngine) -> None:
    async def once(conn: EngineConn, request: RawRequest) -> None:
        if conn.served == 0:
            await conn.send(EMPTY)
        else:
            conn.fin()

    a.script = once
    pool = pool_of(a)
    await call(pool)
    assert await failure_of(pool) is Kind.STALE
    a.script = saying(then="fin")
    assert await failure_of(pool) is Kind.RESET
    assert (pool.idle, pool.in_use) == (0, 0)
    pool.close()


async def test_nobody_listens(a: FakeEngine) -> None:
    pool = pool_of(a)
    a.down()
    assert await failure_of(pool) is Kind.CONNECT
    assert pool.in_use == 0
    pool.close()


async def test_a_name_that_does_not_resolve_is_unreachable(a: FakeEngine) -> None:
    pool = pool_of(a)
    pool.host = "engine.invalid"
    assert await failure_of(pool) is Kind.CONNECT
    pool.close()


async def test_connecting_has_a_limit(a: FakeEngine) -> None:
    a.drop_syns()
    pool = pool_of(a, connect_timeout=0.2)
    began = time.monotonic()
    assert await failure_of(pool) is Kind.CONNECT_TIMEOUT
    assert 0.15 <= time.monotonic() - began < 1.0
    assert pool.in_use == 0
    a.up()
    pool.close()


async def test_closing_the_pool_ends_everything(a: FakeEngine) -> None:
    pool = pool_of(a)
    await call(pool)
    a.script = saying()
    waiting = asyncio.create_task(failure_of(pool))
    await a.wait_requests(2)
    a.script = saying(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")
    reading = asyncio.create_task(failure_of(pool))
    await a.wait_requests(3)
    await until(lambda: bool(a.requests[-1].finished_at), 1.0)
    pool.close()
    assert await waiting in (Kind.STALE, Kind.RESET)
    assert await reading in (Kind.BROKEN, Kind.RESET)
    assert (pool.idle, pool.in_use) == (0, 0)
    await until(lambda: not a.live, 1.0)


async def test_a_connection_given_back_late_is_closed(a: FakeEngine) -> None:
    pool = pool_of(a)
    connection = await pool.acquire()
    await connection.send(head_of(), b"")
    await read_all(connection)
    pool.close()
    pool.release(connection)
    assert (pool.idle, pool.in_use) == (0, 0)
    await until(lambda: not a.live, 1.0)
