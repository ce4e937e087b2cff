"""Which path requests take: load, dwell, pins, a single engine, an engine that dies and returns."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path as FilePath

import pytest

from router.core.words import Path
from router.sim.server import SimulatedPair
from tests.cases.kit.client import CHAT, RawResponse, assert_openai_error, chat_body, good, good_ns, post
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.metrics import Metrics
from tests.cases.kit.router import RouterProcess
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.holding import Holding
from tests.support.running import gather_all, paths_up

DWELL = 0.5
THRESHOLDS = {"high": 4, "low": 2, "dwell": f"{int(DWELL * 1000)}ms", "smoothing": "50ms"}


def route_of(response: RawResponse) -> tuple[str | None, str | None]:
    """Path and reason that the answer names."""
    assert response.status == 200, bytes(response.body)
    return response.head.get("x-router-path"), response.head.get("x-router-reason")


def switches(metrics: Metrics) -> dict[tuple[str, str, str], float]:
    """Switches that happened: (from, to, reason)."""
    found: dict[tuple[str, str, str], float] = {}
    for (name, labels), value in metrics.series.items():
        if name == "spec_router_switches_total" and value:
            of = dict(labels)
            found[of["from"], of["to"], of["reason"]] = value
    return found


async def test_rising_load_switches_at_once_and_falling_load_after_the_dwell(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    old, new = Holding(a), Holding(b)
    router = await start(a, b, policy=THRESHOLDS)
    asks = []
    for expected in ((1, 0), (2, 0), (3, 0), (3, 1), (3, 2)):  # the fourth makes N = 4, itself included
        asks.append(asyncio.create_task(router.ask(good_ns())))
        await until(lambda want=expected: (old.held, new.held) == want, 2.0, f"{expected}")  # type: ignore[misc]
    switched = time.monotonic()
    state = await router.status()
    assert (state["active_path"], state["n"]) == ("baseline", 5)
    assert [(each["from"], each["to"], each["n"], each["reason"]) for each in state["switches"]] == [
        ("speculative", "baseline", 4, "high")
    ]

    old.release()
    new.release(1)
    await until(lambda: router.ledger.n == 1, 2.0, "the old path drains")
    asks.append(asyncio.create_task(router.ask(good_ns())))
    await until(lambda: new.held == 2, 2.0, "N is low, but the dwell has not passed")
    assert time.monotonic() - switched < DWELL, "this test was too slow to tell"
    assert old.held == 0, "the old path is not topped up"

    pair = router.router.services.pair
    await until(lambda: pair.active_path is Path.SPECULATIVE, 3.0, "the switch back")
    assert time.monotonic() - switched >= DWELL - 0.05
    asks.append(asyncio.create_task(router.ask(good_ns())))
    await until(lambda: old.held == 1, 2.0)
    old.release()
    new.release()
    routes = [route_of(response) for response in await asyncio.gather(*asks)]
    wanted = ["speculative"] * 3 + ["baseline"] * 3 + ["speculative"]
    assert routes == [(path, "policy") for path in wanted]

    metrics = await router.metrics()
    assert switches(metrics) == {
        ("speculative", "baseline", "high"): 1,
        ("baseline", "speculative", "low"): 1,
    }
    assert metrics.sum("decisions_total", path="speculative", reason="policy") == len(a.requests) == 4
    assert metrics.sum("decisions_total", path="baseline", reason="policy") == len(b.requests) == 3
    assert metrics.sum("decisions_total") == 7
    assert metrics.active_path() == "speculative"
    assert metrics.sum("threshold", bound="high") == 4
    assert metrics.sum("mixed_seconds_total") > 0


async def test_the_queue_counts(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """N counts who waits: a queue in front of the slower path is load too."""
    held, other = Holding(a), Holding(b)
    router = await start(a, b, policy=THRESHOLDS, server={"max_active": 2})
    asks = [asyncio.create_task(router.ask(good_ns())) for _ in range(5)]
    await until(lambda: router.ledger.queued == 3, 2.0)
    await until(lambda: router.router.services.pair.active_path is Path.BASELINE, 2.0, "N = 5 by the tick")
    assert (held.held, other.held) == (2, 0)
    held.release()
    await until(lambda: other.held == 2, 2.0, "decided when its turn came, not when it arrived")
    other.release()
    await until(lambda: router.ledger.queued == 0 and held.held + other.held == 1, 2.0)
    held.release()
    other.release()
    assert Counter(route_of(response)[0] for response in await asyncio.gather(*asks))["baseline"] >= 2


async def test_load_that_rises_and_falls_on_simulated_engines(start: RouterFactory) -> None:
    async with SimulatedPair(time_scale=10, health_seconds=0.05, disconnect_poll=0.1) as sims:
        router = await start(sims.speculative, sims.baseline, policy={**THRESHOLDS, "high": 8, "low": 3})
        data = post(chat_body(stream=True, max_tokens=40, ignore_eos=True))
        paths: Counter[tuple[str | None, str | None]] = Counter()

        async def visit(count: int) -> None:
            for _ in range(count):
                paths[route_of(await router.ask(data, within=20))] += 1

        await visit(3)
        assert set(paths) == {("speculative", "policy")}
        await gather_all(*(visit(3) for _ in range(24)))
        assert paths["baseline", "policy"] > 48
        pair = router.router.services.pair
        await until(lambda: pair.active_path is Path.SPECULATIVE, 3.0, "the switch back")
        await visit(2)
        metrics = await router.metrics()
        for path in Path:
            counted = sims.engine(path).backend.http_requests
            asked = sum(count for labels, count in counted.items() if CHAT in labels)
            assert asked == paths[path.value, "policy"] == metrics.sum("decisions_total", path=path.value)
            assert metrics.sum("requests_total", path=path.value, outcome="ok") == asked
        assert (
            metrics.sum("switches_total", to="baseline")
            == metrics.sum("switches_total", to="speculative")
            >= 1
        )
        assert metrics.sum("mixed_seconds_total") > 0


async def test_pinned_by_configuration(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, policy={"kind": "pinned", "path": "baseline", "high": 4, "low": 2})
    answers = await gather_all(*(router.ask(good()) for _ in range(10)))
    assert {route_of(answer) for answer in answers} == {("baseline", "pinned")}
    b.down(reset=True)
    await paths_up(router, Path.SPECULATIVE)
    assert route_of(await router.ask(good())) == ("speculative", "failover")
    b.up()
    await paths_up(router, Path.SPECULATIVE, Path.BASELINE)
    await until(lambda: router.router.services.pair.active_path is Path.BASELINE, 2.0)
    assert route_of(await router.ask(good())) == ("baseline", "pinned")
    assert not a.requests[1:]


@pytest.mark.parametrize("which", list(Path))
async def test_one_engine(start: RouterFactory, a: FakeEngine, b: FakeEngine, which: Path) -> None:
    engine = a if which is Path.SPECULATIVE else b
    urls = [engine.url if path is which else None for path in Path]
    router = await start(*urls, policy={"high": 4, "low": 2}, routing={"allow_path_header": True})
    answers = await gather_all(*(router.ask(good()) for _ in range(12)))
    assert {route_of(answer) for answer in answers} == {(which.value, "single")}
    other = (("x-router-path", which.other.value),)
    assert route_of(await router.ask(good(other))) == (which.value, "single")
    assert (await router.status())["placement"] == "single"
    assert (await router.metrics()).sum("switches_total") == 0
    engine.down(reset=True)
    began = time.monotonic()
    assert_openai_error(await router.ask(good()), 503)
    assert time.monotonic() - began < 1.0
    engine.up()
    await paths_up(router, which)
    assert route_of(await router.ask(good())) == (which.value, "single")


async def test_an_engine_dies_and_comes_back(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, policy={"dwell": "200ms"})
    held = Holding(a)
    asks = [asyncio.create_task(router.ask(good())) for _ in range(3)]
    await until(lambda: held.held == 3, 2.0)
    a.down(reset=True)
    assert {route_of(answer) for answer in await asyncio.gather(*asks)} == {("baseline", "retry")}
    await paths_up(router, Path.BASELINE)
    assert route_of(await router.ask(good())) == ("baseline", "failover")
    a.up()
    a.use_good_script()
    await paths_up(router, *Path)
    await until(lambda: router.router.services.pair.active_path is Path.SPECULATIVE, 3.0)
    assert route_of(await router.ask(good())) == ("speculative", "policy")
    metrics = await router.metrics()
    assert switches(metrics) == {
        ("speculative", "baseline", "failover"): 1,
        ("baseline", "speculative", "recovered"): 1,
    }
    assert metrics.sum("retries_total", reason="engine_reset") == 3
    assert metrics.sum("requests_total", outcome="ok", path="baseline") == 4
    assert metrics.sum("requests_total", outcome="ok", path="speculative") == 1
    assert metrics.sum("requests_total") == 5


async def test_an_engine_that_fails_requests_is_left_by_its_breaker(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Healthy by its probes, broken by its answers: five failures, then trials of one at a time."""
    router = await start(a, b, policy={"dwell": "0s"})

    async def broken(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(b'{"error": "x"}', "500 Internal Server Error")

    a.script = broken
    for _ in range(5):
        assert route_of(await router.ask(good())) == ("baseline", "retry")
    assert route_of(await router.ask(good())) == ("baseline", "failover")
    metrics = await router.metrics()
    assert metrics.sum("breaker_state", path="speculative") == 1
    assert metrics.sum("breaker_state", path="baseline") == 0
    a.use_good_script()
    pair = router.router.services.pair
    clock = router.router.services.clock
    await until(lambda: pair.engines[Path.SPECULATIVE].breaker.trial_free(clock()), 2.0, "half open")
    assert [route_of(await router.ask(good())) for _ in range(3)] == [
        ("speculative", "probe"),
        ("speculative", "probe"),
        ("speculative", "policy"),
    ]


async def test_the_path_a_request_asks_for(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, routing={"allow_path_header": True})
    for value, expected in (
        ("baseline", ("baseline", "header")),
        ("speculative", ("speculative", "header")),
        ("auto", ("speculative", "policy")),
    ):
        assert route_of(await router.ask(good((("x-router-path", value),)))) == expected
    error = assert_openai_error(await router.ask(good((("x-router-path", "fast"),))), 400)
    assert error["code"] == "invalid_router_path"
    assert all(request.head.get("x-router-path") is None for request in (*a.requests, *b.requests))
    deaf = await start(a, b)
    assert route_of(await deaf.ask(good((("x-router-path", "baseline"),)))) == ("speculative", "policy")


async def test_placeholder_thresholds_are_warned_of(a: FakeEngine, b: FakeEngine, tmp_path: FilePath) -> None:
    for thresholds, warned in (({"high": 8, "low": 3}, True), ({"high": 9, "low": 3}, False)):
        router = RouterProcess(tmp_path, a.url, b.url, {"policy": thresholds})
        try:
            await router.start()
            assert ("placeholders" in router.log) is warned
            assert await router.terminate() == 0
        finally:
            router.kill()
            router.stderr_file.unlink()
