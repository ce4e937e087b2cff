"""B-25: the model list is asked from a dead engine.

Right value: with one living engine 200 and its list, with no more delay than one connect attempt. Both down:
`/v1/models` gives 503, the router stays alive, says that it is not ready, and its metrics answer.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from .conftest import RouterFactory
from .kit import limits
from .kit.client import RawResponse, assert_openai_error
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import replying, silent
from .kit.sse import MODEL

CONFIG = {"timeouts": {"connect": "400ms"}}
TARGETS = ("/v1/models", f"/v1/models/{MODEL}", "/get_model_info", "/model_info")


async def timed(router: RouterProcess, target: str) -> tuple[RawResponse, float]:
    """The answer and its seconds."""
    started = time.monotonic()
    response = await router.get(target, within=10.0)
    return response, time.monotonic() - started


async def assert_lists(router: RouterProcess, path: str, within: float = limits.STALL) -> None:
    """Each side route answers from that engine."""
    for target in TARGETS:
        response, seconds = await timed(router, target)
        assert (response.status, response.path) == (200, path), (target, response.head.line)
        assert seconds <= within
        assert MODEL.encode() in response.body


async def assert_alive(router: RouterProcess, ready: int) -> None:
    """Liveness, readiness and metrics of the router itself."""
    for target in ("/health", "/healthz"):
        assert (await router.get(target)).status == 200
        assert (await router.get("/healthz", admin=True)).status == 200
    assert (await router.get("/readyz")).status == ready
    _, seconds = await timed(router, "/health")
    assert seconds <= limits.STALL
    await router.metrics()


async def assert_none(router: RouterProcess) -> None:
    """Each side route gives 503, soon."""
    for target in TARGETS:
        response, seconds = await timed(router, target)
        error = assert_openai_error(response, 503)
        assert error["code"] == "no_engine"
        assert seconds <= 1.0
        assert int(response.head.get("retry-after") or "") >= 1


async def readiness(router: RouterProcess, wanted: int) -> None:
    """Wait for it."""
    deadline = time.monotonic() + 5.0
    while await router.readiness() != wanted:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_down_from_the_start(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-25: A was never there."""
    a.down()
    router = await router_factory()
    await assert_lists(router, "baseline")
    await assert_alive(router, 200)
    assert a.requests == []


async def test_both_down_from_the_start(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-25: the router starts without any engine, and finds them when they come."""
    a.down()
    b.down()
    router = await router_factory(start=False)
    await router.start(ready=False)
    deadline = time.monotonic() + limits.READY_SECONDS
    while await router.readiness() is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    await assert_alive(router, 503)
    await assert_none(router)
    b.up()
    await readiness(router, 200)
    await assert_lists(router, "baseline")
    a.up()


async def test_dying_one_after_the_other(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-25: A dies later, then B as well, then both come back."""
    router = await router_factory()
    await assert_lists(router, "speculative")
    a.down(reset=True)
    await assert_lists(router, "baseline", within=1.0)
    await assert_alive(router, 200)
    b.down(reset=True)
    await assert_none(router)
    await readiness(router, 503)
    await assert_alive(router, 503)
    await assert_none(router)
    a.up()
    await readiness(router, 200)
    await assert_lists(router, "speculative")
    b.up()
    await assert_quiet(router, a, b)


async def test_b_down(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-25: B alone is down."""
    b.down()
    router = await router_factory()
    await assert_lists(router, "speculative")
    await assert_alive(router, 200)


@pytest.mark.parametrize("way", ["drops_syns", "never_accepts"])
async def test_unreachable(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, way: str) -> None:
    """B-25: A hangs instead of refusing: one connect limit at most, and none once it is known."""
    router = await router_factory({"health": {"ready": {"timeout": "400ms"}}})
    if way == "drops_syns":
        a.drop_syns()
        a.reset_connections()
        await assert_lists(router, "baseline", within=0.4 + limits.STALL)
    else:
        a.stop_accepting()
        a.reset_connections()
    await asyncio.sleep(2.0)
    await assert_lists(router, "baseline")


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable"])
async def test_sick_engine(router: RouterProcess, a: FakeEngine, b: FakeEngine, status: str) -> None:
    """Kin of B-25: an engine that answers with its own trouble is passed over too."""
    for target in ("/v1/models", "/get_model_info", "/model_info"):
        a.control[target] = replying(status)
    await assert_lists(router, "baseline")


async def test_hung_list(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-25: one that never answers the list does not hold it up for ever."""
    a.control["/v1/models"] = silent
    response, seconds = await timed(router, "/v1/models")
    assert (response.status, response.path) == (200, "baseline")
    assert seconds <= 6.0


async def test_unknown_model(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-25: a 404 about a model is an answer, not a reason to ask elsewhere."""
    response = await router.get("/v1/models/nope")
    assert (response.status, response.path) == (404, "speculative")
    assert response.json()["error"]["code"] == "model_not_found"


async def test_lists_count_nowhere(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-25: side routes move no gauge, no switch and no breaker."""
    before = await router.metrics()
    for _ in range(20):
        await assert_lists(router, "speculative")
    metrics = await router.metrics()
    for name in ("in_flight", "switches_total", "breaker_state", "requests_total", "decisions_total"):
        assert metrics.sum(name) == before.sum(name), name
    await assert_quiet(router, a, b)
