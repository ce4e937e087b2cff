"""Engines that others use too, and requests that outlive their clients."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from router.core.reconcile import Peak
from router.core.words import Path
from router.sim.server import SimulatedPair
from tests.cases.kit.client import post
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.integration.sim_client import ask, chat
from tests.support.running import Running

POLICY = {"high": 4, "low": 2, "dwell": "0s", "smoothing": "0s"}


def excess(own: Running, path: Path) -> int:
    return own.router.services.pair.reconcilers[path].excess()


def long_chat(**fields: Any) -> dict[str, Any]:
    return chat("a long one", max_tokens=20_000, ignore_eos=True, **fields)


async def test_requests_that_others_send_to_an_engine_count_as_load(start: RouterFactory) -> None:
    async with SimulatedPair(health_seconds=0.05, disconnect_poll=0.1, natural_length=None) as pair:
        own = await start(pair.speculative, pair.baseline, policy=POLICY)
        foreign = [
            asyncio.create_task(ask(pair.speculative.port, "POST", "/v1/chat/completions", long_chat()))
            for _ in range(5)
        ]
        try:
            await until(lambda: excess(own, Path.SPECULATIVE) == 5, 8.0, "five ghosts")
            metrics = await own.metrics()
            assert metrics.sum("ghost_requests", path="speculative") == 5
            assert metrics.sum("ghost_requests", path="baseline") == 0
            assert metrics.sum("in_flight") == 0, "no lease is invented"
            await until(lambda: own.router.services.pair.active_path is Path.BASELINE, 2.0, "a switch")
            status = await own.status()
            assert (status["n"], status["excess"]) == (0, 5)
            switch = status["switches"][-1]
            assert (switch["reason"], switch["n"], switch["excess"]) == ("high", 5, 5)
            answer = await own.ask(post(json.dumps(chat("hi", max_tokens=4)).encode()))
            assert (answer.status, answer.path) == (200, "baseline")
        finally:
            for task in foreign:
                task.cancel()
            await asyncio.gather(*foreign, return_exceptions=True)
        await until(lambda: excess(own, Path.SPECULATIVE) == 0, 8.0, "no ghosts")
        await until(lambda: own.router.services.pair.active_path is Path.SPECULATIVE, 2.0, "the way back")


async def test_our_own_requests_are_no_ghosts(start: RouterFactory) -> None:
    async with SimulatedPair(health_seconds=0.05, disconnect_poll=0.1, natural_length=None) as pair:
        own = await start(pair.speculative, pair.baseline)
        seen: set[int] = set()
        for round_ in range(3):
            bodies = [json.dumps(chat(f"{round_}/{n}", max_tokens=60)).encode() for n in range(6)]
            answers = asyncio.gather(*(own.ask(post(body)) for body in bodies))
            while not answers.done():
                seen |= {excess(own, path) for path in Path}
                await asyncio.sleep(0.05)
            assert {answer.status for answer in await answers} == {200}
        assert seen == {0}


async def test_a_request_that_outlives_its_client_is_a_ghost_while_it_does(start: RouterFactory) -> None:
    async with SimulatedPair(health_seconds=0.05, disconnect_poll=6.0, natural_length=None) as pair:
        own = await start(pair.speculative, pair.baseline)
        own.router.services.pair.reconcilers[Path.SPECULATIVE]._ours = Peak(1.0)  # for a shorter test
        request = asyncio.create_task(own.ask(post(json.dumps(long_chat()).encode()), within=60.0))
        engine = pair.speculative.backend.engine
        await until(lambda: engine.running == 1, 5.0, "a running request")
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await until(lambda: own.ledger.n == 0, 5.0, "a closed lease")
        assert engine.running == 1
        await until(lambda: excess(own, Path.SPECULATIVE) == 1, 8.0, "a ghost")
        await until(lambda: engine.running == 0, 8.0, "the engine's look for its client")
        await until(lambda: excess(own, Path.SPECULATIVE) == 0, 8.0, "none any more")
