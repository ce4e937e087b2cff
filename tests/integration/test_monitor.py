"""Monitors against simulated engines on real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import structlog

from router.control.client import Endpoint, make_client
from router.control.monitor import EngineMonitor, Rhythm
from router.control.probe import Prober
from router.core.health import BreakerRules, EngineHealth, HealthRules, Probe, Standing
from router.core.identity import Identity, Told
from router.core.load import EngineLoad, Readings
from router.core.words import Path
from router.sim import SimulatedPair

QUICK = Rhythm(
    ready_interval=0.02, ready_timeout=2.0, deep_interval=0.1, deep_timeout=5.0, load_interval=0.02
)


class Watched:
    """An engine's health and readings, and a way to wait for them."""

    def __init__(self) -> None:
        self.health = EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2))
        self.readings = Readings(time.monotonic)
        self.told: list[Told] = []

    @property
    def standing(self) -> Standing:
        return self.health.standing(time.monotonic())

    @property
    def load(self) -> EngineLoad:
        """The latest reading, all unknown if there is none."""
        return self.readings.latest() or EngineLoad(0.0)


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for a condition. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def monitored(url: str, api_key: str | None = None) -> AsyncIterator[Watched]:
    watched = Watched()
    async with make_client() as client:
        monitor = EngineMonitor(
            Endpoint(url, api_key),
            client,
            watched.health,
            watched.readings,
            QUICK,
            time.monotonic,
            asyncio.sleep,
            lambda: None,
            lambda load: None,
            watched.told.append,
            structlog.get_logger(),
        )
        task = asyncio.create_task(monitor.run())
        try:
            yield watched
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_a_pair_says_what_it_is_and_what_it_does() -> None:
    async with (
        SimulatedPair(api_key="engine-key", health_seconds=0.05, natural_length=None) as pair,
        monitored(pair.speculative_url, "engine-key") as fast,
        monitored(pair.baseline_url, "engine-key") as plain,
        httpx.AsyncClient(trust_env=False, timeout=30.0) as client,
    ):
        await until(lambda: fast.health.up(time.monotonic()) and plain.health.up(time.monotonic()))
        await until(lambda: fast.told and plain.told)
        kinds = [one.speculative for (one,) in (fast.told, plain.told) if isinstance(one, Identity)]
        assert kinds == [True, False]
        request = client.post(
            f"{pair.speculative_url}/v1/completions",
            headers={"authorization": "Bearer engine-key"},
            json={"prompt": "hello", "max_tokens": 2000, "model": "sim"},
        )
        answer = asyncio.create_task(request)
        await until(lambda: fast.load.in_flight() == 1)
        await until(lambda: (fast.load.accept_length or 0.0) > 1.0)
        await until(lambda: (fast.readings.tokens_per_second() or 0.0) > 0.0)
        assert plain.load.accept_length is None
        assert plain.load.in_flight() == 0
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)


async def test_a_stopped_engine_is_dead_until_it_is_back() -> None:
    async with (
        SimulatedPair(health_seconds=0.05) as pair,
        monitored(pair.baseline_url) as plain,
        monitored(pair.speculative_url) as fast,
    ):
        await until(lambda: plain.health.up(time.monotonic()))
        await pair.baseline.stop()
        await until(lambda: plain.standing is Standing.DEAD)
        await until(lambda: plain.readings.latest() is None)
        assert fast.standing is Standing.GOOD
        await pair.baseline.start()
        await until(lambda: plain.standing is Standing.GOOD)
        await until(lambda: len(plain.told) == 2)


async def test_an_engine_that_shuts_down_is_doubted_at_once() -> None:
    async with SimulatedPair(health_seconds=0.05) as pair, monitored(pair.baseline_url) as plain:
        await until(lambda: plain.health.up(time.monotonic()))
        pair.engine(Path.BASELINE).begin_shutdown()
        await until(lambda: plain.standing is Standing.DOUBTFUL)


async def test_a_deep_probe_takes_its_second() -> None:
    async with SimulatedPair(health_seconds=1.0) as pair, make_client() as client:
        prober = Prober(client, Endpoint(pair.baseline_url))
        short, long = await asyncio.gather(prober.deep(0.5), prober.deep(10.0))
        assert (short, long) == (Probe.FAILED, Probe.OK)


async def test_a_port_where_nobody_listens_is_dead(unused_tcp_port: int) -> None:
    async with monitored(f"http://localhost:{unused_tcp_port}") as nobody:
        await until(lambda: nobody.standing is Standing.DEAD)
