"""Our count against the engines' own: after any traffic both are back at nothing."""

from __future__ import annotations

import asyncio
import json
import random
import time

import pytest

from router.core.words import Path
from tests.cases.kit.client import CHAT, RawClient, post
from tests.contract.backends import Backend, Pair
from tests.contract.conftest import between
from tests.contract.occupy import abort, holds, idle, until
from tests.contract.spot import SECONDS, Body, chat_body, generate_body
from tests.support.leftovers import Errors
from tests.support.running import Running, gather_all, running

CLIENTS = 10
SWITCHY = {"high": 5, "low": 2, "dwell": "1s", "smoothing": "200ms"}


async def visit(router: Running, rng: random.Random, number: int) -> None:
    """One request that is heard to its end, or left at some moment, or aborted by its name."""
    stream, tokens = rng.random() < 0.7, rng.randrange(4, 60)
    native = rng.random() < 0.2
    body: Body = (
        generate_body(tokens, stream=stream) if native else chat_body(max_tokens=tokens, stream=stream)
    )
    rid = f"visit-{number:06d}-{rng.getrandbits(32):08x}"
    data = post(json.dumps(body | {"rid": rid}).encode(), "/generate" if native else CHAT)
    async with await RawClient.connect(router.data) as client:
        await client.request(data)
        fate = rng.random()
        if fate < 0.5:
            await client.response(within=SECONDS)
            return
        await asyncio.sleep(rng.random() * 0.5)
        client.rst() if fate < 0.8 else client.fin()


async def traffic(router: Running, pair: Pair, seconds: float, seed: int) -> int:
    """Clients one after the other, several at a time, and aborts from the side; returns how many came."""
    count, ends = 0, time.monotonic() + seconds

    async def client(rng: random.Random) -> None:
        nonlocal count
        while time.monotonic() < ends:
            count += 1
            await visit(router, rng, count)
            if rng.random() < 0.05:
                engine = pair.engine(rng.choice(list(Path)))
                await abort(engine, rid=f"visit-{count:06d}")

    await gather_all(*(client(random.Random(seed + number)) for number in range(CLIENTS)))
    return count


async def run(pair: Pair, seconds: float) -> None:
    """Traffic for so long, then nothing anywhere."""
    async with running(between(pair, policy=SWITCHY)) as router:
        async with router.scraper(0.2) as scraper:
            arrived = await traffic(router, pair, seconds, seed=7)
        await router.quiet()
        for path in Path:
            await idle(pair.engine(path), 20.0)

        async def agreed() -> bool:
            metrics = await router.metrics()
            return "in_flight_drift" in metrics.text and all(
                metrics.sum("in_flight_drift", path=path.value) == 0 for path in Path
            )

        await until(agreed, "no drift on either path", 20.0)
        assert not scraper.negatives, scraper.negatives
        metrics = await router.metrics()
        assert metrics.sum("requests_total") == arrived > CLIENTS
        assert metrics.sum("requests_total", outcome="failed") == 0
        assert metrics.sum("requests_total", outcome="cancelled") > 0
        assert all(metrics.sum("requests_total", path=path.value, outcome="ok") > 0 for path in Path)
        assert [await holds(pair.engine(path)) for path in Path] == [(0, 0), (0, 0)]


async def test_twenty_seconds(pair: Pair, backend: Backend, errors: Errors) -> None:
    """Fewer on the simulated pair, whose requests are faster."""
    await run(pair, 5.0 if backend.name == "sim" else 20.0)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_two_minutes(pair: Pair, errors: Errors) -> None:
    await run(pair, 120.0)
