"""B-14: the same generation runs twice.

Right value: at most one second try, on the other engine, and only where the first can not be at work any more
(refused, reset before any answer, an answer that says so). A time limit is never retried. Never more tries
than engines, never two at one engine, no loop. Both down: 503 with `Retry-After` at once.

Connections are fresh each time, so that nothing here is a stale connection (B-16).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from .conftest import RouterFactory
from .kit import limits
from .kit.client import End, RawClient, ask, assert_openai_error, chat_body, good, good_ns, post
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.recover import drop_pooled, recover
from .kit.router import RouterProcess
from .kit.scripts import after, breaking, head_only, replying, reset, serve_probes_only, silent
from .kit.sse import content, role

# One failure opens the breaker, so its state says whether a failure was held against the engine. Probes
# never take part.
CONFIG = {
    "breaker": {"failure_threshold": 1, "success_threshold": 1, "open_for": "200ms"},
    "health": {"failure_threshold": 10_000},
    "timeouts": {"first_byte": "400ms", "idle": "400ms", "connect": "300ms"},
}

NAMES = {good(): "stream", good_ns(): "whole"}
LARGE = post(chat_body(stream=True, padding="x" * (10 * 1024 * 1024)))
NAMES[LARGE] = "10MiB"


def refused(engine: FakeEngine) -> None:
    """(a) Nobody listens."""
    engine.down()


def reset_while_uploading(engine: FakeEngine) -> None:
    """(b) RST as soon as the request begins."""
    engine.call_at = "head"
    engine.on_accept = serve_probes_only


def reset_late(engine: FakeEngine) -> None:
    """(c) The whole request is read; RST without a response byte."""
    engine.script = after(0.2, reset)


def busy(engine: FakeEngine) -> None:
    """(d) 503 at once."""
    engine.script = replying("503 Service Unavailable")


def mute(engine: FakeEngine) -> None:
    """(e) Silence past the first-byte limit."""
    engine.script = silent


def mute_after_head(engine: FakeEngine) -> None:
    """Kin of (e): a head, then silence."""
    engine.script = head_only


def head_then_reset(engine: FakeEngine) -> None:
    """(f) A head, then RST before any body byte."""
    engine.script = breaking([])


def head_then_fin(engine: FakeEngine) -> None:
    """Kin of (f): FIN."""
    engine.script = breaking([], end="fin")


def body_then_reset(engine: FakeEngine) -> None:
    """(f) A body byte, then RST."""
    engine.script = breaking([role()])


def part_of_an_event_then_reset(engine: FakeEngine) -> None:
    """(f) Less than an event, then RST: nothing has reached the client, but a body byte came."""
    engine.script = breaking([b"da"])


def fin_late(engine: FakeEngine) -> None:
    """Kin of (c): FIN instead of RST."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(0.2)
        conn.fin()

    engine.script = script


def nonsense(engine: FakeEngine) -> None:
    """Kin of (c): bytes that are no HTTP."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    engine.script = script


def half_a_head_then_reset(engine: FakeEngine) -> None:
    """Kin of (c): part of a status line."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(b"HTTP/1.1 20")
        await conn.pause(0.05)
        conn.rst()

    engine.script = script


def unreachable(engine: FakeEngine) -> None:
    """Kin of (a): connecting hangs past its limit."""
    engine.drop_syns()


def failing(engine: FakeEngine) -> None:
    """Kin of (d): 500."""
    engine.script = replying("500 Internal Server Error")


@dataclass(frozen=True, slots=True)
class Right:
    """What must come of it: requests seen by A and by B, the client's status, is it held against A."""

    at_a: int
    at_b: int
    status: int
    counts: bool


CASES: dict[Callable[[FakeEngine], None], Right] = {
    refused: Right(0, 1, 200, True),
    unreachable: Right(0, 1, 200, True),
    reset_while_uploading: Right(1, 1, 200, True),
    reset_late: Right(1, 1, 200, True),
    fin_late: Right(1, 1, 200, True),
    nonsense: Right(1, 1, 200, True),
    half_a_head_then_reset: Right(1, 1, 200, True),
    busy: Right(1, 1, 200, False),
    failing: Right(1, 1, 200, True),
    mute: Right(1, 0, 504, True),
    mute_after_head: Right(1, 0, 504, True),
    head_then_reset: Right(1, 1, 200, True),
    head_then_fin: Right(1, 1, 200, True),
}
BROKEN = (body_then_reset, part_of_an_event_then_reset)


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def fresh(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> AsyncIterator[None]:
    """Both engines good, A active, no connection to reuse; and the same again for whoever comes next."""
    await recover(router)
    await drop_pooled(a, b)
    a.forget()
    b.forget()
    yield
    a.up()
    b.up()


@pytest.mark.parametrize(
    ("way", "data"),
    [
        *((way, good()) for way in CASES),
        *((way, good_ns()) for way in (refused, reset_late, busy, mute, head_then_reset)),
        *((way, LARGE) for way in (refused, reset_while_uploading, reset_late, busy)),
    ],
    ids=lambda value: value.__name__ if callable(value) else NAMES[value],
)
async def test_first_engine(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, way: Callable[[FakeEngine], None], data: bytes
) -> None:
    """B-14 (a) to (f) and kin: tries at each engine, the client's status, and the first engine's breaker."""
    right = CASES[way]
    way(a)
    response = await ask(router.data_port, data)
    assert (len(a.requests), len(b.requests)) == (right.at_a, right.at_b)
    if right.status == 200:
        assert (response.status, response.end, response.path) == (200, End.COMPLETE, "baseline")
    else:
        assert_openai_error(response, right.status)
        await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    metrics = await router.metrics()
    assert (metrics.sum("breaker_state", path="speculative") != 0) == right.counts
    assert metrics.sum("breaker_state", path="baseline") == 0


@pytest.mark.parametrize("way", BROKEN, ids=lambda way: way.__name__)
async def test_after_a_body_byte(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, way: Callable[[FakeEngine], None]
) -> None:
    """B-14 (f): after a body byte there is no second try."""
    way(a)
    response = await ask(router.data_port, good())
    assert response.status == 502 or response.end in (End.EOF, End.RST)
    assert (len(a.requests), len(b.requests)) == (1, 0)


@pytest.mark.parametrize("data", [good(), LARGE], ids=["stream", "10MiB"])
@pytest.mark.parametrize("way", [refused, busy, reset_late, head_then_reset], ids=lambda way: way.__name__)
async def test_both_engines(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, way: Callable[[FakeEngine], None], data: bytes
) -> None:
    """B-14: both engines do it; each is tried once."""
    way(a)
    way(b)
    started = time.monotonic()
    response = await ask(router.data_port, data)
    assert time.monotonic() - started <= (1.0 if way in (refused, busy) else 3.0)
    tries = 0 if way is refused else 1
    assert (len(a.requests), len(b.requests)) == (tries, tries)
    if way is refused:
        assert_openai_error(response, 503)
        assert int(response.head.get("retry-after") or "") >= 1
    elif way is busy:
        assert response.status == 503
    else:
        assert_openai_error(response, 502)


async def test_both_down_for_long(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-14: once breakers are open and probes have failed, the answer is the same and as quick."""
    router = await router_factory({"breaker": {"failure_threshold": 2}, "health": {"failure_threshold": 3}})
    a.down()
    b.down()
    for _ in range(30):
        started = time.monotonic()
        response = await ask(router.data_port, good())
        assert time.monotonic() - started <= 1.0
        assert_openai_error(response, 503)
        assert int(response.head.get("retry-after") or "") >= 1
        await asyncio.sleep(0.05)
    a.up()
    b.up()
    deadline = time.monotonic() + 5
    while (await ask(router.data_port, good())).status != 200:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    await recover(router)
    await assert_quiet(router, a, b)


async def test_retry_switched_off(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-14: `retry.other_path: 0` means none, and the engine's own refusal passes."""
    router = await router_factory({"retry": {"other_path": 0}, "breaker": {"failure_threshold": 100}})
    for way, status in ((refused, 503), (busy, 503), (reset_late, 502), (failing, 500)):
        way(a)
        assert (await ask(router.data_port, good())).status == status
        a.up()
        a.use_good_script()
    assert b.requests == []


async def test_no_storm(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-14: 100 requests while both reset: at most one try per engine and request."""
    router = await router_factory({"breaker": {"failure_threshold": 10_000}})
    a.script = b.script = after(0.2, reset)
    async with router.scraper() as scraper:
        responses = await asyncio.gather(*(ask(router.data_port, good()) for _ in range(100)))
        assert {response.status for response in responses} == {502}
        assert (len(a.requests), len(b.requests)) == (100, 100)
        await assert_quiet(router, a, b, scraper=scraper)
    assert scraper.peak["speculative"] + scraper.peak["baseline"] <= 200


async def test_time_limit_does_not_wander(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-14 (e): slow at B after a refusal by A is a time limit too: 504, and nobody is asked again."""
    busy(a)
    mute(b)
    assert_openai_error(await ask(router.data_port, good()), 504)
    assert (len(a.requests), len(b.requests)) == (1, 1)
    await b.wait_closed(b.requests[0].conn, limits.CLOSE_SECONDS)


async def test_same_request_id_and_body(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-14: the second try is the same request, byte for byte."""
    busy(a)
    await ask(router.data_port, good((("x-request-id", "mine-1"), ("x-custom", "1"))))
    first, second = a.requests[0], b.requests[0]
    assert bytes(first.body) == bytes(second.body)
    rows = [[row for row in request.head.headers if row[0].lower() != "host"] for request in (first, second)]
    assert rows[0] == rows[1]
    assert ("x-request-id", "mine-1") in rows[0]


async def test_silence_after_events_is_not_retried(
    router: RouterProcess, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-14 (e): silence in the middle of the answer."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(content("x"))
        await conn.pause(60)

    a.script = script
    client = await RawClient.connect(router.data_port)
    response = await client.ask(good())
    assert response.end is not End.COMPLETE
    assert b.requests == []
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    a.use_good_script()
    await recover(router)
    await assert_quiet(router, a, b)


async def test_a_repaired_engine_takes_second_tries(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-14: the idle engine failed once, long ago; when the active one refuses, it is tried again."""
    router = await router_factory()
    busy(a)
    failing(b)
    assert (await ask(router.data_port, good())).status == 500
    b.use_good_script()
    await asyncio.sleep(0.3)
    response = await ask(router.data_port, good())
    assert (response.status, response.path) == (200, "baseline")
    assert (await router.metrics()).sum("breaker_state", path="baseline") == 0


async def test_ready_again_without_traffic(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-14: both breakers opened, then nobody asks: a balancer looks at readiness first."""
    router = await router_factory()
    a.script = b.script = reset
    assert (await ask(router.data_port, good())).status == 502
    assert await router.readiness() == 503
    a.use_good_script()
    await router.wait_ready(within=2.0)
    assert (await ask(router.data_port, good())).status == 200
