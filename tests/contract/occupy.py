"""Keeping an engine's slots taken for as long as a test needs them, and reading what it holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from tests.cases.kit.client import CHAT, RawClient, ask, post, request_bytes
from tests.contract.backends import Engine
from tests.contract.spot import SECONDS, Spot, chat_body
from tests.sglang_cpu.flags import RUNNING

LONG = 1900  # tokens: some seconds on the fastest engine


async def until(condition: Callable[[], Awaitable[bool]], what: str, within: float = SECONDS) -> float:
    """Wait until the condition holds; returns the seconds waited."""
    started = time.monotonic()
    while not await condition():
        waited = time.monotonic() - started
        assert waited < within, f"not within {within} s: {what}"
        await asyncio.sleep(0.05)
    return time.monotonic() - started


async def holds(engine: Engine, key: str = "") -> tuple[int, int]:
    """Requests that the engine says are running and waiting."""
    fields = (("authorization", f"Bearer {key}"),) if key else ()
    answer = await ask(engine.port, request_bytes("GET", "/v1/loads?include=core", fields), SECONDS)
    load = answer.json()["loads"][0]
    return load["num_running_reqs"], load["num_waiting_reqs"]


async def idle(engine: Engine, within: float = SECONDS) -> float:
    """Wait until the engine holds nothing; returns the seconds waited."""

    async def nothing() -> bool:
        return await holds(engine) == (0, 0)

    return await until(nothing, "an idle engine", within)


async def abort(engine: Engine, **what: object) -> None:
    """POST /abort_request."""
    answer = await ask(engine.port, post(json.dumps(what).encode(), "/abort_request"), SECONDS)
    assert (answer.status, bytes(answer.body)) == (200, b"")


@dataclass(slots=True)
class Held:
    """An engine with all of its slots taken."""

    engine: Engine
    clients: list[RawClient]

    async def waits(self, count: int) -> None:
        """Wait until so many requests are in its queue."""

        async def queued() -> bool:
            return (await holds(self.engine))[1] >= count

        # An engine tells of its queue only now and then, and only while it works.
        await until(queued, f"{count} waiting", 20)

    async def let_go(self) -> None:
        """End what takes the slots."""
        for client in self.clients:
            client.rst()
        self.clients.clear()


@contextlib.asynccontextmanager
async def occupied(spot: Spot, slots: int = RUNNING) -> AsyncIterator[Held]:
    """Take every slot with streams that run on; nothing is left of them behind the block."""
    held = Held(spot.engine, [])
    try:
        for _ in range(slots):
            held.clients.append(await spot.open(CHAT, chat_body(max_tokens=LONG, stream=True)))
        for client in held.clients:
            await client.started(within=SECONDS)
        yield held
    finally:
        await held.let_go()
        await idle(spot.engine)
