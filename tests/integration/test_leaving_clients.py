"""Hundreds of clients that leave at any moment and in any way; afterwards every count is exactly right."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from router.core.words import Outcome, Path
from router.sim.server import SimulatedPair
from tests.cases.kit.client import End, RawClient, chat_body, post
from tests.cases.kit.metrics import Metrics
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.running import Running, gather_all

CLIENTS = 300
LIMITS = {"max_active": 10, "queue_size": 220, "queue_timeout": "20s"}
TOKENS = 32


@dataclass(slots=True)
class Seen:
    """What the clients did, and what they saw."""

    stages: Counter[str] = field(default_factory=Counter)
    whole: int = 0
    refused: int = 0


async def leave(client: RawClient, rng: random.Random) -> None:
    """FIN or RST, or a FIN of one direction first."""
    if rng.random() < 0.2:
        client.half_close()
        await asyncio.sleep(0.01)
    client.rst() if rng.random() < 0.5 else client.fin()


async def visit(router: Running, rng: random.Random, seen: Seen) -> None:
    """One client: asks, and stays or leaves at a moment of its own."""
    await asyncio.sleep(rng.random() * 0.4)
    data = post(chat_body(stream=rng.random() < 0.7, max_tokens=TOKENS, ignore_eos=True))
    async with await RawClient.connect(router.data) as client:
        stage = rng.choice(["uploading", "at once", "soon", "later", "first bytes", "mid-stream", "stays"])
        if stage == "uploading":
            await client.request(data[: -rng.randrange(1, 60)])
        else:
            await client.request(data)
        if stage == "at once":
            client.half_close()
        elif stage == "soon":
            await asyncio.sleep(0.05 + rng.random() * 0.1)
        elif stage == "later":
            await asyncio.sleep(rng.random() * 2)
        elif stage == "first bytes":
            await client.started(within=20)
        elif stage == "mid-stream":
            await part(client, rng.randrange(1000, 6000))
        elif stage == "stays":
            await staying(client, seen)
        seen.stages[stage] += 1
        await leave(client, rng)


async def part(client: RawClient, size: int) -> None:
    """Hear so many bytes of the answer, or all of it if it is shorter."""
    response = await client.started(within=20)
    await client.wait(lambda: len(response.body) >= size or response.end is not End.OPEN, 20, "a part")


async def staying(client: RawClient, seen: Seen) -> None:
    """Hear the answer to its end: whole, or a refusal."""
    response = await client.response(within=30)
    assert response.end is End.COMPLETE
    if response.status == 200:
        seen.whole += 1
    else:
        assert response.status == 429, bytes(response.body)
        seen.refused += 1


async def test_every_departure_is_accounted(start: RouterFactory) -> None:
    rng = random.Random(20)
    seen = Seen()
    async with SimulatedPair(time_scale=3, health_seconds=0.05, disconnect_poll=0.2) as sims:
        router = await start(
            sims.speculative,
            sims.baseline,
            server=LIMITS,
            policy={"high": 6, "low": 2, "dwell": "200ms", "smoothing": "50ms"},
        )
        arrived = count_arrivals(router)
        async with router.scraper(0.05) as scraper:
            await gather_all(*(visit(router, random.Random(rng.random()), seen) for _ in range(CLIENTS)))
            await router.quiet()
        await until(lambda: not any(engine_holds(sims).values()), 3.0, f"idle engines {engine_holds(sims)}")
        metrics = await router.metrics()
        assert not scraper.negatives
        assert scraper.scrapes >= 10
        assert scraper.peak["queue"] > 20, "the queue was put to the test"
        assert scraper.peak["speculative"] + scraper.peak["baseline"] >= LIMITS["max_active"]
        assert {path: metrics.in_flight(path) for path in ("speculative", "baseline", "queue")} == {
            "speculative": 0,
            "baseline": 0,
            "queue": 0,
        }
        check_sums(router, metrics_outcomes(metrics), arrived(), seen)


def count_arrivals(router: Running) -> Callable[[], int]:
    """Requests that reached the data port; each gets an id, as the clients send none."""
    services = router.router.services
    count, new_id = 0, services.new_id

    def counting() -> bytes:
        nonlocal count
        count += 1
        return new_id()

    services.new_id = counting
    return lambda: count


def engine_holds(sims: SimulatedPair) -> dict[Path, int]:
    """Requests that the engines have."""
    engines = {path: sims.engine(path).backend.engine for path in Path}
    return {path: engine.running + engine.waiting for path, engine in engines.items()}


def metrics_outcomes(metrics: Metrics) -> dict[str, float]:
    """Requests by outcome, over all paths."""
    return {outcome.value: metrics.sum("requests_total", outcome=outcome.value) for outcome in Outcome}


def check_sums(router: Running, outcomes: dict[str, float], arrived: int, seen: Seen) -> None:
    """Each request has one outcome, and the outcomes fit what the clients did."""
    assert len(seen.stages) == 7
    assert sum(seen.stages.values()) == CLIENTS
    assert sum(outcomes.values()) == arrived == CLIENTS, (outcomes, arrived)
    assert outcomes["failed"] == 0, outcomes
    assert outcomes["ok"] >= seen.whole > 0, (outcomes, seen)
    assert outcomes["cancelled"] > 100, outcomes
    ledger = router.ledger
    assert ledger.opened == sum(ledger.closed.values()) <= arrived
    assert all(ledger.closed[outcome] <= outcomes[outcome.value] for outcome in Outcome)
