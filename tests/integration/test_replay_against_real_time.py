"""A replay foretells what the router and simulated engines do in real time."""

from __future__ import annotations

import asyncio
import time

import pytest

from router.core.policy import ThresholdPolicy
from router.core.words import Path, Placement
from router.replay.contenders import FIXED, contenders
from router.replay.load import Load
from router.replay.plant import load_plant
from router.replay.run import Contender, play
from router.sim.server import SimulatedPair
from tests.cases.kit.client import chat_body, post
from tests.integration.conftest import RouterFactory

TOKENS = 120
SECONDS = 12.0


def foretold(users: int, high: int) -> tuple[float, float, int]:
    """Mean latency, share of requests on speculative, switches."""
    profile, calibration = load_plant("strong", Placement.SHARED)
    pair = next(each for each in contenders(profile, calibration) if each.name == FIXED)
    chosen = Contender("as configured", pair.placement, pair.engines, ThresholdPolicy(high, 1, 5.0, 0.5))
    load = Load("users", SECONDS, users=lambda now: users, recorded=[(0.0, 20, TOKENS)])
    run = play(chosen, load, 0)
    latency = [job.done - job.arrived for job in run.jobs]
    return sum(latency) / len(latency), run.served[Path.SPECULATIVE] / len(run.jobs), len(run.switches)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "high"), [(6, 8), (16, 10)], ids=["speculative alone", "a switch and its drain"]
)
async def test_latencies_and_paths_are_foretold_within_10_percent(
    start: RouterFactory, users: int, high: int
) -> None:
    latency: list[float] = []
    served: list[str | None] = []
    async with SimulatedPair(profile="strong", health_seconds=0.05) as sims:
        policy = {"high": high, "low": 1, "dwell": "5s", "smoothing": "500ms"}
        router = await start(sims.speculative, sims.baseline, policy=policy)
        data = post(chat_body(stream=True, max_tokens=TOKENS, ignore_eos=True))
        end = time.monotonic() + SECONDS

        async def visit() -> None:
            while (began := time.monotonic()) < end:
                response = await router.ask(data, within=60)
                latency.append(time.monotonic() - began)
                served.append(response.head.get("x-router-path"))

        await asyncio.gather(*(visit() for _ in range(users)))
        switches = sum(each.target is Path.BASELINE for each in router.router.services.pair.switches)
    mean, share, made = foretold(users, high)
    assert sum(latency) / len(latency) == pytest.approx(mean, rel=0.10)
    assert served.count("speculative") / len(served) == pytest.approx(share, abs=0.10)
    assert switches == (1 if made else 0)
