"""Engines that end: drained, without a scheduler, killed; and what the router makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from router.core.words import Path
from tests.cases.kit.client import CHAT, End, RawClient
from tests.contract.backends import Backend, Engine, Pair
from tests.contract.conftest import between
from tests.contract.occupy import LONG, until
from tests.contract.spot import SECONDS, Spot, chat_body
from tests.support.leftovers import Errors
from tests.support.running import Running, paths_up, running


@pytest.fixture(scope="module")
def victims(backend: Backend) -> Iterator[list[Engine]]:
    """One engine for each way to end."""
    with backend.victims(3) as engines:
        yield engines


@contextlib.asynccontextmanager
async def in_front(victim: Engine, pair: Pair) -> AsyncIterator[tuple[Spot, Spot, Running]]:
    """The victim itself, and a router that sends everything to it while it lives."""
    urls = {
        "speculative": {"url": f"http://127.0.0.1:{pair.speculative.port}"},
        "baseline": {"url": f"http://127.0.0.1:{victim.port}"},
    }
    pinned = {"kind": "pinned", "path": "baseline"}
    async with running(between(pair, pairs=[urls], policy=pinned)) as router:
        await paths_up(router, *Path)
        spot = Spot(victim, victim.port, Path.BASELINE)
        yield spot, Spot(victim, router.data, Path.BASELINE, router), router


async def stream(spot: Spot, tokens: int) -> RawClient:
    """A stream whose first bytes are there."""
    client = await spot.open(CHAT, chat_body(max_tokens=tokens, stream=True))
    await client.body(300, within=SECONDS)
    return client


async def status(spot: Spot, target: str) -> int | None:
    """None if nobody listens any more."""
    try:
        return (await spot.get(target)).status
    except (OSError, AssertionError):
        return None


async def gone(engine: Engine) -> bool:
    return engine.exited()


async def test_terminated_while_busy(victims: list[Engine], pair: Pair, errors: Errors) -> None:
    """What runs is finished and more is still taken; only `/ready` and `/health` say that it ends."""
    async with in_front(victims[0], pair) as (spot, front, router):
        direct, relayed = await stream(spot, 600), await stream(front, 600)
        whole = asyncio.ensure_future(spot.chat(max_tokens=400))
        victims[0].terminate()

        async def draining() -> bool:
            return await status(spot, "/ready") == 503

        await until(draining, "503 of /ready", 10.0)
        assert await status(spot, "/health") == 503
        assert (await spot.chat(max_tokens=2)).status == 200

        async def left() -> bool:
            return (await router.metrics()).sum("engine_up", path="baseline") == 0

        await until(left, "a router that knows", 20.0)
        assert (await front.chat(max_tokens=2)).path == "speculative"
        for client in (direct, relayed):
            answer = await client.response(within=SECONDS)
            assert answer.end is End.COMPLETE
            assert answer.body.endswith(b"data: [DONE]\n\n")
            assert b'"finish_reason":"length"' in answer.body
            client.fin()
        assert (await whole).json()["usage"]["completion_tokens"] == 400
        await until(lambda: gone(victims[0]), "its exit", SECONDS)
        assert await status(spot, "/ready") is None


@pytest.mark.parametrize("way", ["scheduler", "all"])
async def test_killed(victims: list[Engine], pair: Pair, errors: Errors, way: str) -> None:
    """Streams end without an end, answers in one piece without a byte; never a clean end."""
    victim = victims[1 if way == "scheduler" else 2]
    async with in_front(victim, pair) as (spot, front, router):
        direct, relayed = await stream(spot, LONG), await stream(front, LONG)
        unanswered = await spot.open(CHAT, chat_body(max_tokens=LONG))
        repeated = asyncio.ensure_future(front.chat(max_tokens=40, rid="repeat-me"))
        if way == "scheduler":
            victim.kill_scheduler()
        else:
            await asyncio.to_thread(victim.kill)
        answer = await direct.response(within=SECONDS)
        assert answer.end in (End.EOF, End.RST)
        assert b"[DONE]" not in answer.body
        await until(lambda: gone(victim), "its end", SECONDS)

        async def closed() -> bool:
            return unanswered.peer_gone_at is not None

        await until(closed, "a closed connection")
        assert not unanswered.responses
        await told(relayed)
        after = await repeated
        assert (after.status, after.json()["usage"]["completion_tokens"]) == (200, 40)
        assert (await front.chat(max_tokens=2)).path == "speculative"
        metrics = await router.metrics()
        assert metrics.sum("requests_total", path="baseline", outcome="failed") >= 1
        for client in (direct, unanswered, relayed):
            client.fin()


async def told(relayed: RawClient) -> None:
    """The router's client hears an error event, and then no clean end."""
    answer = await relayed.response(within=SECONDS)
    assert answer.end is not End.COMPLETE
    last = [event for event in bytes(answer.body).split(b"\n\n") if event][-1]
    assert "error" in json.loads(last.removeprefix(b"data: "))
