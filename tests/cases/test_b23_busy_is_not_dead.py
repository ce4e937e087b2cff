"""B-23: busy taken for dead.

Right value: running streams go on whatever a health check says; one failed check removes nothing; while the
engine delivers, slow health alone does not remove it. With nothing answered it is out after the configured
failures and back after the successes. Checks have their own connections and never count as in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from .conftest import RouterFactory
from .kit.client import End, RawClient, ask, good, good_ns
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.metrics import Metrics
from .kit.probes import ready as healthy
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import after, replying, silent, ticking
from .kit.waiting import until

CONFIG = {
    "health": {
        "ready": {"interval": "200ms", "timeout": "500ms"},
        "deep": {"interval": "500ms", "timeout": "1s"},
        "failure_threshold": 3,
        "success_threshold": 2,
    }
}
not_there = replying("404 Not Found", b'{"detail":"Not Found"}')
unavailable = replying("503 Service Unavailable", b"")


def once(bad: Script) -> Script:
    """Bad the first time, good from then on."""
    seen: list[RawRequest] = []

    async def script(conn: EngineConn, request: RawRequest) -> None:
        seen.append(request)
        await (bad if len(seen) == 1 else healthy)(conn, request)

    return script


WAYS: dict[str, dict[str, Script]] = {
    "late": {"/health": after(15.0, healthy)},
    "says_503": {"/health": unavailable},
    "one_time_out": {"/health": once(silent)},
    "times_out": {"/health": silent},
    "both_time_out": {"/health": silent, "/ready": silent},
    "old_engine_late": {"/health": after(15.0, healthy), "/ready": not_there},
    "old_engine_says_503": {"/health": unavailable, "/ready": not_there},
    "says_500": {"/health": replying("500 Internal Server Error", b"")},
    "resets": {"/health": replying("500 Internal Server Error", b""), "/ready": silent},
}


@asynccontextmanager
async def streams(router: RouterProcess, count: int) -> AsyncIterator[list[RawClient]]:
    """Open streams, which must all be running at the end."""
    clients = [await RawClient.connect(router.data_port) for _ in range(count)]
    for client in clients:
        await client.request(good())
        assert (await client.started()).path == "speculative"
    yield clients
    assert {client.responses[0].end for client in clients} == {End.OPEN}
    for client in clients:
        client.rst()


async def hold(router: RouterProcess, seconds: float, in_flight: int) -> None:
    """A stays in rotation all the while and checks do not count."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        metrics = await router.metrics()
        assert metrics.active_path() == "speculative", router.log[-1500:]
        assert metrics.sum("in_flight") == in_flight
        await asyncio.sleep(0.05)


# In the ordinary run one of each sort; all of them, longer, in the full one.
ORDINARY = [("late", 0.05), ("says_503", 0.05), ("both_time_out", 0.4), ("old_engine_says_503", 0.05)]
FULL = [pytest.param(name, gap, 15.0, marks=pytest.mark.slow) for name in WAYS for gap in (0.05, 0.4)]


@pytest.mark.parametrize(("name", "gap", "seconds"), [*((name, gap, 4.0) for name, gap in ORDINARY), *FULL])
async def test_while_streams_run(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, name: str, gap: float, seconds: float
) -> None:
    """B-23 (a) to (d): eight streams, and health that is late, unwell, hung once or always."""
    control = WAYS[name]
    a.script = ticking(gap)
    async with streams(router, 8):
        a.control.update(control)
        await hold(router, seconds, 8)
        assert (await ask(router.data_port, good_whole(a))).path == "speculative"
    a.control.update({"/health": healthy, "/ready": healthy})
    await asyncio.sleep(0.6)
    await assert_quiet(router, a, b, expect=a)


def good_whole(engine: FakeEngine) -> bytes:
    """A further request, which the engine answers at once."""
    engine.use_good_script()
    return good_ns()


async def test_one_stream_is_proof_enough(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-23 (d) with a single stream: bytes prove life, however few."""
    a.script = ticking(0.1)
    async with streams(router, 1):
        a.control.update({"/health": silent, "/ready": silent})
        await hold(router, 5.0, 1)
    a.control.update({"/health": healthy, "/ready": healthy})
    await asyncio.sleep(0.6)
    await assert_quiet(router, a, b)


async def test_whole_answers_are_proof_enough(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-23: "bytes or complete answers": one short answer after another, and hung health."""
    a.control.update({"/health": silent, "/ready": silent})
    ends = time.monotonic() + 4.0
    while time.monotonic() < ends:
        assert (await ask(router.data_port, good_ns())).path == "speculative"
        await asyncio.sleep(0.2)
    a.control.update({"/health": healthy, "/ready": healthy})
    await asyncio.sleep(0.6)


@pytest.mark.parametrize(
    ("target", "failures"),
    [("/ready", 2), *(pytest.param("/health", n, marks=pytest.mark.slow) for n in (1, 2))],
)
async def test_few_failures(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, target: str, failures: int
) -> None:
    """B-23 (c): below the threshold nothing happens to an idle engine."""
    router = await router_factory()
    await asyncio.sleep(0.5)
    seen: list[RawRequest] = []

    async def script(conn: EngineConn, request: RawRequest) -> None:
        seen.append(request)
        await (silent if len(seen) <= failures else healthy)(conn, request)

    a.control[target] = script
    await hold(router, 2.5 if target == "/ready" else 4.5, 0)
    assert len(seen) > failures
    assert "engine d" not in router.log[-2000:].rpartition("engine up")[2]


async def wait_active(router: RouterProcess, path: str, within: float) -> Metrics:
    """Wait until that is the active path."""
    deadline = time.monotonic() + within
    while (metrics := await router.metrics()).active_path() != path:
        assert time.monotonic() < deadline, f"{path} is not active after {within} s"
        await asyncio.sleep(0.02)
    return metrics


async def test_refused(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-23 (e): nobody listens and nothing flows: out after three checks and not before, back after two."""
    router = await router_factory()
    started = time.monotonic()
    a.down(reset=True)
    await wait_active(router, "baseline", 3.0)
    assert time.monotonic() - started >= 0.35
    response = await ask(router.data_port, good())
    assert (response.status, response.path) == (200, "baseline")
    a.up()
    a.forget()
    await wait_active(router, "speculative", 3.0)
    assert len(a.probes) >= 2
    await assert_quiet(router, a, b, expect=a)


async def test_failing_health_of_an_idle_engine(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-23 (e): a hung scheduler is found by the deep check alone, though the door answers."""
    router = await router_factory()
    a.control["/health"] = silent
    await wait_active(router, "baseline", 8.0)
    a.control["/health"] = healthy
    await wait_active(router, "speculative", 5.0)
    await assert_quiet(router, a, b, expect=a)


async def test_not_ready_drains(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-23: `/ready` 503 is SGLang's word that it is going: nothing new for it, its streams go on."""
    router = await router_factory()
    a.script = ticking(0.1)
    async with streams(router, 3):
        a.control["/ready"] = unavailable
        await wait_active(router, "baseline", 2.0)
        assert (await ask(router.data_port, good())).path == "baseline"
        await asyncio.sleep(1.0)
    a.control["/ready"] = healthy
    await wait_active(router, "speculative", 3.0)
    await assert_quiet(router, a, b, expect=a)


async def test_both_engines_doubtful(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-23: checks alone never take the last engine away."""
    router = await router_factory()
    for engine in (a, b):
        engine.control.update({"/health": silent, "/ready": silent})
    await asyncio.sleep(4.0)
    for _ in range(5):
        assert (await ask(router.data_port, good())).status == 200
    assert await router.readiness() == 200


async def test_checks_have_their_own_connections(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-23: no connection carries both checks and requests."""
    for _ in range(5):
        await ask(router.data_port, good())
        await asyncio.sleep(0.1)
    await until(lambda: len(a.probes) > 5, 3.0, "some checks")
    for conn in a.conns:
        kinds = {request.method == "POST" for request in conn.requests}
        assert len(kinds) <= 1, [request.head.line for request in conn.requests]
