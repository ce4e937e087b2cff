"""A monitor's rhythm, driven by a clock and a sleep of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from structlog.testing import capture_logs

from router.control.load import ASK_AGAIN
from router.core.health import Standing
from router.core.identity import Identity, KeyRefused
from router.core.load import EngineLoad
from tests.unit.control.engine import Bench, ScriptedEngine, refused


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def bench(engine: ScriptedEngine) -> AsyncIterator[Bench]:
    bench = Bench(engine)
    async with bench.client:
        yield bench


@pytest.fixture
async def running(bench: Bench) -> AsyncIterator[Bench]:
    """The bench with its monitor running; all three loops are asleep after their first step."""
    task = asyncio.create_task(bench.monitor.run())
    await bench.sleeper.settle(3)
    yield bench
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# What the scripted engine says of itself.
FOUND = Identity(speculative=True, version="0.5.23", arguments={"speculative_algorithm": "EAGLE3"})


async def test_an_engine_is_up_after_the_first_probe_and_its_load_known(running: Bench) -> None:
    assert running.health.up(running.clock())
    assert running.readings.latest() == EngineLoad(
        at=1000.0,
        running=2,
        waiting=1,
        token_usage=0.5,
        generation_tokens=100.0,
        accept_length=2.5,
    )
    assert running.loads == [running.readings.latest()]
    assert running.told == [FOUND]
    assert running.changes >= 1


async def test_how_often_what_is_asked(running: Bench, engine: ScriptedEngine) -> None:
    for _ in range(60):
        await running.sleeper.advance(1.0, 3)
    asked = engine.asked()
    assert asked.count("/ready") == 61
    assert asked.count("/v1/loads") == asked.count("/metrics") == 61
    # At once, again to confirm the first good result, then every 30 s.
    assert asked.count("/health") == 3
    # At once, and again after a minute: a restart may have been missed.
    assert asked.count("/server_info") == 2
    assert "/ping" not in asked
    assert running.changes == 61 + 3


async def test_the_limits_are_those_of_the_rhythm(running: Bench, engine: ScriptedEngine) -> None:
    await running.sleeper.advance(1.0, 3)
    limits = {request.url.path: request.extensions["timeout"]["read"] for request in engine.requests}
    assert limits["/ready"] == 2.0
    assert limits["/health"] == 25.0


async def test_a_stopped_engine_is_dead_and_comes_back(running: Bench, engine: ScriptedEngine) -> None:
    engine.all_routes = refused()
    for _ in range(3):
        await running.sleeper.advance(1.0, 3)
    assert running.health.standing(running.clock()) is Standing.DEAD
    assert running.readings.latest() is None
    engine.asked()
    for _ in range(60):
        await running.sleeper.advance(1.0, 3)
    assert set(engine.asked()) == {"/ready"}
    engine.all_routes = None
    for _ in range(2):
        await running.sleeper.advance(1.0, 3)
    assert running.health.up(running.clock())
    assert running.readings.latest() is not None
    assert None in running.loads
    assert len(running.told) == 2
    asked = engine.asked()
    assert asked.count("/server_info") == 1
    assert "/health" in asked


async def test_a_draining_engine_is_not_asked_to_generate(running: Bench, engine: ScriptedEngine) -> None:
    engine.routes |= {"/ready": 503, "/health": 503}
    await running.sleeper.advance(1.0, 3)
    assert running.health.standing(running.clock()) is Standing.DOUBTFUL
    engine.asked()
    for _ in range(40):
        await running.sleeper.advance(1.0, 3)
    asked = engine.asked()
    assert "/health" not in asked
    assert asked.count("/v1/loads") == 40


async def test_a_hung_scheduler_is_doubted_and_trusted_again_soon_after_it_recovers(
    running: Bench, engine: ScriptedEngine
) -> None:
    for _ in range(5):
        await running.sleeper.advance(1.0, 3)
    engine.routes["/health"] = httpx.ReadTimeout("hung")
    for _ in range(95):
        await running.sleeper.advance(1.0, 3)
    assert running.health.standing(running.clock()) is Standing.DOUBTFUL
    engine.routes["/health"] = 200
    for _ in range(32):
        await running.sleeper.advance(1.0, 3)
    assert running.health.standing(running.clock()) is Standing.GOOD


async def test_a_deep_probe_that_takes_long_holds_nothing_up(bench: Bench, engine: ScriptedEngine) -> None:
    answer = asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        await answer.wait()
        return httpx.Response(200, stream=httpx.ByteStream(b""))

    engine.routes["/health"] = slow
    task = asyncio.create_task(bench.monitor.run())
    await bench.sleeper.settle(2)
    for _ in range(5):
        await bench.sleeper.advance(1.0, 2)
    assert engine.asked().count("/ready") == 6
    answer.set()
    await bench.sleeper.settle(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_failing_readings_say_nothing_of_health(running: Bench, engine: ScriptedEngine) -> None:
    engine.routes |= {"/v1/loads": 500, "/metrics": httpx.ReadTimeout("slow")}
    for _ in range(12):
        await running.sleeper.advance(1.0, 3)
    assert running.health.up(running.clock())
    assert running.readings.latest() is None


async def test_an_engine_without_metrics_is_not_asked_for_them_each_second(
    running: Bench, engine: ScriptedEngine
) -> None:
    engine.routes["/metrics"] = 404
    engine.asked()
    for _ in range(int(ASK_AGAIN) + 2):
        await running.sleeper.advance(1.0, 3)
    asked = engine.asked()
    assert asked.count("/metrics") == 2
    assert asked.count("/v1/loads") == int(ASK_AGAIN) + 2
    latest = running.readings.latest()
    assert latest is not None
    assert latest.running == 2
    assert latest.generation_tokens is None


async def test_metrics_alone_are_a_reading_too(engine: ScriptedEngine) -> None:
    engine.routes |= {"/v1/loads": 404, "/server_info": 401}
    bench = Bench(engine)
    async with bench.client:
        await bench.monitor.read_load()
        latest = bench.readings.latest()
    assert latest == EngineLoad(at=1000.0, generation_tokens=100.0, accept_length=2.5)


async def test_a_bug_is_logged_once_and_the_loop_goes_on(engine: ScriptedEngine) -> None:
    engine.routes["/ready"] = RuntimeError("a bug")
    with capture_logs() as lines:
        bench = Bench(engine)
        task = asyncio.create_task(bench.monitor.run())
        await bench.sleeper.settle(3)
        for _ in range(3):
            await bench.sleeper.advance(1.0, 3)
        assert [(line["log_level"], line["probe"]) for line in lines] == [("error", "ready")]
        engine.routes["/ready"] = 200
        await bench.sleeper.advance(1.0, 3)
        assert bench.health.up(bench.clock())
        engine.routes["/ready"] = RuntimeError("again")
        await bench.sleeper.advance(1.0, 3)
        assert len(lines) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await bench.client.aclose()


async def test_nothing_is_logged_of_an_engine_that_comes_and_goes(engine: ScriptedEngine) -> None:
    with capture_logs() as lines:
        bench = Bench(engine, api_key="SECRET")
        for reply in (refused(), 503, None, httpx.ReadTimeout("http://engine-host"), None):
            engine.all_routes = reply
            await bench.monitor.probe_ready()
            await bench.monitor.probe_deep_if_due()
            await bench.monitor.read_load()
        await bench.client.aclose()
    assert lines == []


async def ask_identity(engine: ScriptedEngine, api_key: str | None = None) -> Bench:
    """A bench that has asked once what the engine is."""
    bench = Bench(engine, api_key=api_key)
    async with bench.client:
        await bench.monitor.read_load()
    return bench


async def test_an_old_engine_is_asked_by_the_old_name(engine: ScriptedEngine) -> None:
    engine.routes["/get_server_info"] = engine.routes.pop("/server_info")
    assert (await ask_identity(engine)).told == [FOUND]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("key", ["SECRET", None])
async def test_an_engine_that_refuses_the_key_is_told_of(
    engine: ScriptedEngine, status: int, key: str | None
) -> None:
    engine.routes["/server_info"] = status
    assert (await ask_identity(engine, key)).told == [KeyRefused(shown=key is not None)]


@pytest.mark.parametrize("reply", [500, 404, 200, httpx.ReadTimeout("slow")])
async def test_an_engine_that_does_not_say_what_it_is_is_asked_again(
    engine: ScriptedEngine, reply: int | Exception
) -> None:
    engine.routes["/server_info"] = reply
    assert (await ask_identity(engine)).told == []
