"""Cancelled at any moment, a request to an engine leaves no connection in use and none half used."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from router.upstream.pool import Pool
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.waiting import until
from tests.support.upstream import head_of, pool_of

STAGES = ("connecting", "sending", "reading", "done")


async def halting(conn: EngineConn, request: RawRequest) -> None:
    """An answer in several steps, some turns of the loop apart."""
    await turns(4)
    await conn.head()
    for number in range(4):
        await turns(2)
        await conn.chunk(b"data: %d\n\n" % number)
    await conn.end()


async def turns(count: int) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def use(pool: Pool, stages: list[str], body: bytes, *, fresh: bool) -> None:
    """One request as the data path makes it, noting how far it came."""
    stages.append("connecting")
    connection = await pool.acquire(fresh=fresh)
    try:
        stages.append("sending")
        await connection.send(head_of(len(body)), body)
        stages.append("reading")
        while await connection.read():
            pass
        stages.append("done")
    finally:
        pool.release(connection)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("size", [10, 2 << 20], ids=["small", "upload"])
async def test_cancelled_after_any_number_of_turns(a: FakeEngine, size: int, *, fresh: bool) -> None:
    a.script = halting
    pool = pool_of(a)
    reached: set[str] = set()
    body = b"x" * size
    for count in range(120 if size < 1000 else 60):
        stages: list[str] = []
        task = asyncio.create_task(use(pool, stages, body, fresh=fresh))
        await turns(count)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        reached.add(stages[-1] if stages else "nothing")
        assert pool.in_use == 0, f"after {count} turns"
    assert reached >= set(STAGES[:3]) if fresh else {"sending", "reading"} <= reached, reached
    await until(lambda: len(a.live) == pool.idle, 2.0, "the engine sees no more connections than are idle")
    # What is left idle still works.
    await use(pool, [], b"", fresh=False)
    pool.close()


async def test_cancelled_while_connecting_to_nobody(a: FakeEngine) -> None:
    a.drop_syns()
    pool = pool_of(a, connect_timeout=5.0)
    tasks = [asyncio.create_task(use(pool, [], b"", fresh=True)) for _ in range(20)]
    for number, task in enumerate(tasks):
        await turns(number)
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert pool.in_use == 0
    a.up()
    pool.close()


async def test_cancelled_while_the_engine_is_silent(a: FakeEngine) -> None:
    """The engine must see the connection close, or it would generate to the end."""

    async def silent(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(60)

    a.script = silent
    pool = pool_of(a)
    task = asyncio.create_task(use(pool, [], b"", fresh=False))
    await a.wait_requests(1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await until(lambda: not a.live, 1.0, "closed")
    assert (pool.idle, pool.in_use) == (0, 0)
    pool.close()
