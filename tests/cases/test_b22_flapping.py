"""B-22: flapping, and everybody moving at once.

Right value: with U = `policy.high` and D = `policy.low` the active path goes up at U and down at D, remembers
in between, changes at most once per dwell downwards, and never moves a running stream. The counter and the
gauge agree with where requests go. An engine that comes back gets a limited share at first.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from .conftest import RouterFactory
from .kit.client import End, RawClient, ask, good
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.recover import recover
from .kit.router import RouterProcess
from .kit.scripts import ticking
from .kit.waiting import until

U, D = 8, 3
CONFIG = {
    "policy": {"high": U, "low": D, "dwell": "0s", "smoothing": "0s"},
    "breaker": {"failure_threshold": 3, "success_threshold": 2, "open_for": "1s"},
}


class Load:
    """A number of open streams that can be set."""

    def __init__(self, router: RouterProcess, beside: int = 0) -> None:
        self._router = router
        self._beside = beside  # requests that are open and not ours
        self.clients: list[RawClient] = []
        self.paths: list[str | None] = []

    async def set(self, count: int) -> None:
        """Open or close one after the other until there are so many."""
        while len(self.clients) < count:
            client = await RawClient.connect(self._router.data_port)
            await client.request(good())
            self.paths.append((await client.started()).path)
            self.clients.append(client)
        while len(self.clients) > count:
            await self.close_one()

    async def close_one(self, *, newest: bool = True) -> None:
        """One leaves; returns when the router has noticed."""
        self.clients.pop(-1 if newest else 0).rst()
        await self.counted(len(self.clients))

    async def counted(self, count: int) -> None:
        """Wait until the router counts so many."""
        deadline = time.monotonic() + 2
        while (await self._router.metrics()).sum("in_flight") != count + self._beside:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)

    def assert_untouched(self) -> None:
        """Every open stream still runs."""
        assert {client.responses[0].end for client in self.clients} <= {End.OPEN}

    def leave(self) -> None:
        """All go."""
        for client in self.clients:
            client.rst()
        self.clients.clear()


async def switches(router: RouterProcess) -> list[dict[str, object]]:
    """The recorded switches, oldest first."""
    status = await router.status()
    return sorted(status["pairs"][0]["switches"], key=lambda switch: switch["at"])


async def test_up_at_u_down_at_d(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-22 (b): ten sweeps D−1 … U+1 and back: one switch each way, at U and at D."""
    a.script = b.script = ticking(0.2)
    load = Load(router)
    before = len(await switches(router))
    await load.set(D - 1)
    for _ in range(10):
        load.paths.clear()
        await load.set(U + 1)
        assert load.paths == ["speculative"] * (U - D) + ["baseline"] * 2
        assert (await router.metrics()).active_path() == "baseline"
        await load.set(D + 1)
        assert (await router.metrics()).active_path() == "baseline"
        await load.set(D)
        assert (await router.metrics()).active_path() == "speculative"
        await load.set(D - 1)
        load.assert_untouched()
    seen = (await switches(router))[before:]
    assert [(switch["reason"], switch["n"]) for switch in seen] == [("high", U), ("low", D)] * 10
    assert (await router.metrics()).sum("switches_total") == before + 20
    load.leave()
    await assert_quiet(router, a, b)


async def test_in_between_is_remembered(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-22 (b): the same load, another path, by where it came from."""
    a.script = b.script = ticking(0.2)
    load = Load(router)
    await load.set(5)
    assert set(load.paths) == {"speculative"}
    await load.set(U)
    await load.set(4)
    load.paths.clear()
    await load.set(7)
    assert set(load.paths) == {"baseline"}
    load.leave()
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("seconds", [4.0, pytest.param(60.0, marks=pytest.mark.slow)])
async def test_held_at_u(router: RouterProcess, a: FakeEngine, b: FakeEngine, seconds: float) -> None:
    """B-22 (a): the count moves between U−1 and U+1: one switch in all."""
    a.script = b.script = ticking(0.2)
    load = Load(router)
    before = (await router.metrics()).sum("switches_total")
    ends = time.monotonic() + seconds
    await load.set(U - 1)
    while time.monotonic() < ends:
        for count in (U, U + 1, U, U - 1):
            await load.set(count)
    assert (await router.metrics()).sum("switches_total") == before + 1
    load.assert_untouched()
    load.leave()
    await assert_quiet(router, a, b)


async def test_dwell(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-22 (b): with a dwell at most one switch down in each, however the load swings."""
    router = await router_factory({"policy": {"dwell": "1500ms", "smoothing": "100ms"}})
    a.script = b.script = ticking(0.2)
    load = Load(router)
    began = time.monotonic()
    while time.monotonic() - began < 4.5:
        await load.set(U + 1)
        await load.set(1)
        await asyncio.sleep(0.4)  # four times the smoothing: low enough for long enough, on any machine
    took = time.monotonic() - began
    metrics = await router.metrics()
    assert 1 <= metrics.sum("switches_total", reason="low") <= took / 1.5
    assert metrics.sum("switches_total", reason="high") - metrics.sum("switches_total", reason="low") in (
        0,
        1,
    )
    load.leave()


async def test_spike(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-22 (c): a spike of 2U: up in the instant of the U-th request, the same each time."""
    for _ in range(5):
        a.script = b.script = ticking(0.2)
        load = Load(router)
        load.clients = [await RawClient.connect(router.data_port) for _ in range(2 * U)]
        await asyncio.gather(*(client.request(good()) for client in load.clients))
        responses = await asyncio.gather(*(client.started() for client in load.clients))
        assert Counter(response.path for response in responses) == {
            "speculative": U - 1,
            "baseline": U + 1,
        }
        load.leave()
        await load.counted(0)
        assert (await router.metrics()).active_path() == "speculative"
    await assert_quiet(router, a, b)


async def test_streams_live_through_switches(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-22: a stream begun before a switch ends whole on the engine it began on."""
    a.script = b.script = ticking(0.1, 20)
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    await client.started()
    load = Load(router, beside=1)
    for _ in range(3):
        await load.set(U)
        await load.set(0)
    response = await client.response()
    assert (response.end, response.path) == (End.COMPLETE, "speculative")
    assert response.body.count(b"\n\n") == 22
    client.fin()


async def test_gauge_agrees_with_requests(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-22: what `active_path` says before a request that changes nothing is where it goes."""
    a.script = b.script = ticking(0.2)
    load = Load(router)
    for count in (1, 5, U - 1, U, U + 3, 6, 4, D, 1, 2):
        await load.set(count)
        metrics = await router.metrics()
        # One more must not be the one that switches.
        if metrics.active_path() == "speculative" and count == U - 1:
            continue
        response = await RawClient.connect(router.data_port)
        await response.request(good())
        assert (await response.started()).path == metrics.active_path()
        load.clients.append(response)
        await load.set(count)
    load.leave()
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("away", [1.5, pytest.param(5.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "busy",
    [pytest.param(6, id="under_load"), pytest.param(1, id="nearly_idle", marks=pytest.mark.slow)],
)
async def test_comes_back_gently(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, busy: int, away: float
) -> None:
    """B-22 (d): A dies and comes back: at first it gets one request at a time and not everybody."""
    router = await router_factory({"policy": {"high": 200, "low": 100}})
    a.script = b.script = ticking(0.3, 4)
    load = Load(router)
    await load.set(busy)
    a.down(reset=True)
    responses: list[tuple[float, str | None]] = []

    async def one() -> None:
        started = time.monotonic()
        response = await ask(router.data_port, good())
        assert response.status == 200
        responses.append((started, response.path))

    tasks: list[asyncio.Task[None]] = []

    async def keep_asking(seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            tasks.append(asyncio.create_task(one()))
            await asyncio.sleep(0.05)

    await keep_asking(away)
    a.up()
    a.forget()
    back = time.monotonic()
    most = 0

    async def watch() -> None:
        nonlocal most
        while (await router.metrics()).active_path() != "speculative":
            most = max(most, a.open_requests())
            await asyncio.sleep(0.02)

    watcher = asyncio.create_task(watch())
    await keep_asking(3.0)
    await asyncio.gather(*tasks)
    early = [path for started, path in responses if 0.0 <= started - back <= 1.0]
    assert early.count("speculative") <= len(early) * 0.3, early
    assert most <= 2
    await asyncio.wait_for(watcher, 10.0)
    await recover(router)
    a.use_good_script()
    load.leave()
    await assert_quiet(router, a, b, expect=a)


@pytest.mark.parametrize(
    ("high", "low"),
    [(8, 8), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((3, 8), (8, 0), (0, 0), (-1, -2)))],
)
async def test_reversed_thresholds(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, high: int, low: int
) -> None:
    """B-22 (e): D ≥ U is refused at start, and the message says what is allowed."""
    router = await router_factory({"policy": {"high": high, "low": low}}, start=False)
    await router.start(ready=False)
    assert await router.wait_exit(10.0) != 0
    assert "low" in router.log
    assert str(router.config_file) in router.log
    assert "Traceback" not in router.log


@pytest.mark.slow
async def test_engine_that_comes_and_goes(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-22: with a dwell a bouncing engine costs at most one return in each."""
    router = await router_factory({"policy": {"dwell": "2s", "high": 200, "low": 100}})
    before = time.monotonic()
    for _ in range(6):
        a.down(reset=True)
        await asyncio.sleep(0.2)
        assert (await ask(router.data_port, good())).status == 200
        a.up()
        for _ in range(5):
            assert (await ask(router.data_port, good())).status == 200
            await asyncio.sleep(0.1)
    metrics = await router.metrics()
    assert metrics.sum("switches_total", reason="recovered") <= (time.monotonic() - before) / 2.0
    await until(lambda: a.open_requests() == 0, 2.0, "idle")
