from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast

from router.core.words import Path
from router.demo.client import StreamClient
from router.demo.load import Load
from router.demo.prompts import Prompts
from router.demo.reply import Reply
from router.demo.tally import Tally

PROMPTS = Prompts(0, "sim", 10)


class Clients:
    """Stand-ins for connections: each request waits until `answered` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.answered = asyncio.Event()
        self.error = error
        self.open = 0
        self.asked: list[bytes] = []

    def __call__(self) -> StreamClient:
        return cast("StreamClient", self)

    async def ask(self, body: bytes) -> Reply:
        self.asked.append(body)
        self.open += 1
        try:
            if self.error:
                raise self.error
            await self.answered.wait()
            await asyncio.sleep(0)
        finally:
            self.open -= 1
        return Reply(Path.BASELINE, 0.0, 0.1, 1.0, 5, None)

    def close(self) -> None:
        pass


@contextlib.asynccontextmanager
async def running(clients: Clients, tally: Tally, users: Callable[[float], int]) -> AsyncIterator[Load]:
    load = Load(users, clients, PROMPTS, tally, asyncio.get_running_loop().time)
    task = asyncio.create_task(load.run())
    try:
        yield load
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_there_are_as_many_users_as_the_wave_wants_at_most_one_request_each() -> None:
    clients, wanted = Clients(), [3]
    async with running(clients, Tally(), lambda at: wanted[0]) as load:
        await until(lambda: clients.open == 3)
        wanted[0] = 5
        await until(lambda: clients.open == 5)
        wanted[0] = 2
        await until(lambda: load.wanted == 2)
        assert clients.open == 5  # nobody is cut off
        clients.answered.set()
        await until(lambda: clients.open <= 2)
    clients.answered.set()
    await load.finish(5.0, asyncio.Event())


async def test_every_request_is_another_one() -> None:
    clients, tally = Clients(), Tally()
    clients.answered.set()
    async with running(clients, tally, lambda at: 2) as load:
        await until(lambda: tally.requests >= 20)
    await load.finish(5.0, asyncio.Event())
    assert len(set(clients.asked)) == len(clients.asked) == tally.requests
    assert tally.failed == 0


async def test_open_requests_may_finish() -> None:
    clients, tally = Clients(), Tally()
    async with running(clients, tally, lambda at: 4) as load:
        await until(lambda: clients.open == 4)
    finishing = asyncio.create_task(load.finish(5.0, asyncio.Event()))
    clients.answered.set()
    await finishing
    assert (tally.requests, tally.failed, clients.open) == (4, 0, 0)


async def test_what_is_open_after_the_limit_failed() -> None:
    clients, tally = Clients(), Tally()
    async with running(clients, tally, lambda at: 4) as load:
        await until(lambda: clients.open == 4)
    await load.finish(0.05, asyncio.Event())
    assert (tally.requests, tally.failed, clients.open) == (4, 4, 0)


async def test_what_a_hurry_cuts_off_did_not_fail() -> None:
    clients, tally, hurry = Clients(), Tally(), asyncio.Event()
    async with running(clients, tally, lambda at: 4) as load:
        await until(lambda: clients.open == 4)
    hurry.set()
    await load.finish(60.0, hurry)
    assert (tally.failed, clients.open) == (0, 0)


async def test_a_fault_of_the_load_itself_does_not_hide() -> None:
    clients, tally = Clients(error=RuntimeError("bad")), Tally()
    async with running(clients, tally, lambda at: 1) as load:
        await until(lambda: tally.failed > 0)
    await load.finish(1.0, asyncio.Event())
    assert next(iter(tally.problems)) == "the load itself failed: RuntimeError('bad')"
