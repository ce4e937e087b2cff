"""B-24: client mistakes blamed on the engine.

Right value: 4xx answers and clients that leave never touch the breaker; the statuses reach the clients. Only
connect errors, protocol errors, time limits and 5xx other than 503 count; 429 and 503 are back-pressure.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from .conftest import RouterFactory
from .kit.client import RawClient, ask, good, good_ns
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.engine import good as good_script
from .kit.quiet import assert_quiet
from .kit.recover import drop_pooled, recover
from .kit.router import RouterProcess
from .kit.scripts import breaking, head_only, replying, reset, silent, ticking
from .kit.sse import chat_events, error_event

# The default threshold is 5; one failure that counted where it must not would show at once with 1.
CONFIG = {
    "breaker": {"failure_threshold": 1, "success_threshold": 1, "open_for": "200ms"},
    "health": {"failure_threshold": 1000},
}
STATUSES = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
}


async def assert_untouched(router: RouterProcess) -> None:
    """A is in rotation and its breaker was never open."""
    metrics = await router.metrics()
    assert metrics.sum("breaker_state") == 0
    assert metrics.active_path() == "speculative"
    assert metrics.sum("switches_total") == 0
    assert metrics.sum("engine_up") == 2


@pytest.mark.parametrize("status", STATUSES)
async def test_in_a_row(router: RouterProcess, a: FakeEngine, b: FakeEngine, status: int) -> None:
    """B-24: a hundred 4xx answers in a row."""
    a.script = replying(f"{status} {STATUSES[status]}")
    for _ in range(5):
        responses = await asyncio.gather(
            *(ask(router.data_port, good() if n % 2 else good_ns()) for n in range(20))
        )
        assert {response.status for response in responses} == {status}
    assert len(a.requests) == 100
    assert b.requests == []
    await assert_untouched(router)


async def test_mixed_with_good_ones(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-24: the same between good answers."""
    rng = random.Random(24)

    async def script(conn: EngineConn, request: RawRequest) -> None:
        status = rng.choice([200, *STATUSES])
        await (good_script if status == 200 else replying(f"{status} {STATUSES[status]}"))(conn, request)

    a.script = script
    for _ in range(100):
        assert (await ask(router.data_port, good())).status in {200, *STATUSES}
    assert b.requests == []
    await assert_untouched(router)
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("script", [silent, head_only, ticking(0.02)], ids=["silent", "head", "stream"])
async def test_disconnects(router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script) -> None:
    """B-24: a hundred clients who leave."""
    a.script = script
    for _ in range(5):
        clients = [await RawClient.connect(router.data_port) for _ in range(20)]
        await asyncio.gather(*(client.request(good()) for client in clients))
        await asyncio.sleep(0.1)
        for client in clients:
            client.rst()
        await asyncio.sleep(0.02)
    await assert_quiet(router, a, b, expect=a)
    await assert_untouched(router)


async def test_error_events(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-24: a 400 inside a stream of status 200, first or later, is the client's too."""

    async def first(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream([error_event(400), b"data: [DONE]\n\n"])

    async def later(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream([*chat_events(tail=False), error_event(400), b"data: [DONE]\n\n"])

    for script in (first, later):
        a.script = script
        for _ in range(10):
            response = await ask(router.data_port, good())
            assert response.status == 200
            assert error_event(400) in response.body
    await assert_untouched(router)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_back_pressure(router: RouterProcess, a: FakeEngine, b: FakeEngine, status: str) -> None:
    """B-24: back-pressure goes to the other engine and leaves the breaker alone."""
    a.script = replying(status)
    for _ in range(30):
        assert (await ask(router.data_port, good())).path == "baseline"
    await assert_untouched(router)
    b.script = replying(status)
    for _ in range(30):
        assert (await ask(router.data_port, good())).status == int(status[:3])
    await assert_untouched(router)


async def nonsense(conn: EngineConn, request: RawRequest) -> None:
    """No HTTP."""
    await conn.send(b"no http\r\n\r\n")


def scripted(script: Script) -> Callable[[FakeEngine], None]:
    """Let the engine answer by the script."""

    def apply(engine: FakeEngine) -> None:
        engine.script = script

    return apply


COUNTS: dict[str, Callable[[FakeEngine], None]] = {
    "refused": lambda engine: engine.down(reset=True),
    "reset": scripted(reset),
    "protocol": scripted(nonsense),
    "first_byte_limit": scripted(silent),
    "gap_limit": scripted(ticking(5.0)),
    "broken_stream": scripted(breaking(chat_events(tail=False))),
    "status_500": scripted(replying("500 Internal Server Error")),
    "status_502": scripted(replying("502 Bad Gateway")),
    "status_504": scripted(replying("504 Gateway Timeout")),
}


# A router of its own for each: the ordinary run takes some.
ORDINARY = ("refused", "first_byte_limit", "broken_stream", "status_500")


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name, marks=() if name in ORDINARY else pytest.mark.slow)
        for name, way in COUNTS.items()
    ],
)
async def test_what_counts(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, way: Callable[[FakeEngine], None]
) -> None:
    """B-24: the failures that do count open the breaker, so the tests above could have failed."""
    router = await router_factory(
        {"breaker": {"open_for": "5s"}, "timeouts": {"first_byte": "300ms", "idle": "300ms"}}
    )
    await drop_pooled(a, b)
    way(a)
    await ask(router.data_port, good())
    metrics = await router.metrics()
    assert metrics.sum("breaker_state", path="speculative") == 1
    assert metrics.sum("breaker_state", path="baseline") == 0
    a.up()


async def test_five_in_a_row_by_default(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-24: a good answer begins the row of failures anew, a 4xx neither adds to it nor clears."""
    router = await router_factory({"breaker": {"failure_threshold": 3, "open_for": "300ms"}})
    bad, mistake = replying("500 Internal Server Error"), replying("400 Bad Request")
    for script, state in (
        (bad, 0),
        (bad, 0),
        (good_script, 0),
        (bad, 0),
        (mistake, 0),
        (bad, 0),
        (mistake, 0),
        (bad, 1),
    ):
        a.script = script
        await ask(router.data_port, good())
        assert (await router.metrics()).sum("breaker_state", path="speculative") == state
    a.use_good_script()
    await asyncio.sleep(0.3)
    await recover(router)


async def test_a_body_that_every_engine_fails_on(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-24: a request that both engines answer with 500 says nothing of either."""
    a.script = b.script = replying("500 Internal Server Error")
    for n in range(6):
        assert (await ask(router.data_port, good() if n % 2 else good_ns())).status == 500
    assert (len(a.requests), len(b.requests)) == (6, 6)
    await assert_untouched(router)
    a.script = b.script = good_script
    assert (await ask(router.data_port, good())).status == 200
    await assert_quiet(router, a, b)


async def test_a_body_that_one_engine_fails_on(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-24: where the other engine answers the same request well, the first one is to blame, at once."""
    a.script, b.script = replying("500 Internal Server Error"), ticking(0.1)
    async with await RawClient.connect(router.data_port) as client:
        await client.send(good())
        await b.wait_requests(1)
        await until_open(router)


async def until_open(router: RouterProcess) -> None:
    """Wait until A's breaker has opened, long before B's answer ends."""
    for _ in range(100):
        if (await router.metrics()).sum("breaker_state", path="speculative") > 0:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the breaker stays closed")
