"""B-32: shutdown with long streams open.

Right value: new connections are refused (or get 503 with `Connection: close`) at once and readiness is false;
what ends within the drain limit ends whole; at the limit the rest end visibly broken, as in B-13, and their
engine connections close; the process is gone a second later with code 0 (or 143) and without a traceback.
Times are scaled: a drain limit of 2 s.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time

import pytest

from .conftest import RouterFactory
from .kit import limits
from .kit.client import CHAT, End, RawClient, RawResponse, ask, chat_body, good, good_ns, post, request_bytes
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_clean_log
from .kit.router import RouterProcess
from .kit.scripts import head_only, silent, ticking
from .kit.sdk import SDKS, Sdk, sdk_chat
from .kit.sse import DONE, role
from .kit.waiting import until

DRAIN = 2.0
LATE = 1.0  # right value: the exit at most 1 s after the limit
NOISE = 0.7  # of a loaded machine
CONFIG = {"server": {"drain_timeout": "2s"}}


async def by_name(conn: EngineConn, request: RawRequest) -> None:
    """Streams that last as long as their prompt says."""
    seconds = float(json.loads(request.body)["seconds"])
    await conn.head()
    await conn.chunk(role())
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        await conn.pause(0.05)
        await conn.chunk(b"data: {}\n\n")
    await conn.chunk(DONE)
    await conn.end()


async def opened(router: RouterProcess, data: bytes) -> RawClient:
    """A client whose answer has begun."""
    client = await RawClient.connect(router.data_port)
    await client.request(data)
    await client.started()
    return client


def assert_broken(response: RawResponse) -> None:
    """Visibly, after an error event."""
    assert response.end in (End.EOF, End.RST)
    last = bytes(response.body).rstrip().rsplit(b"\n\n", 1)[-1]
    assert set(json.loads(last.removeprefix(b"data: "))["error"]) == {"message", "type", "param", "code"}


async def assert_gone(router: RouterProcess, engine: FakeEngine, started: float, limit: float) -> None:
    """Ended in time, cleanly, with its engine connections closed."""
    code = await router.wait_exit(limit + LATE + NOISE + 2.0 - (time.monotonic() - started))
    assert time.monotonic() - started <= limit + LATE + NOISE
    assert code in (0, 143, -signal.SIGTERM)
    assert_clean_log(router.log)
    await until(lambda: engine.open_requests() == 0, limits.CLOSE_SECONDS, "engine connections closed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_three_streams(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, number: signal.Signals
) -> None:
    """B-32: streams that end in 1 s, in 8 s, never; a drain limit of 2 s."""
    router = await router_factory()
    a.script = by_name
    short, long, endless = [await opened(router, good(seconds=seconds)) for seconds in (1, 8, 1000)]
    started = time.monotonic()
    router.send_signal(number)
    await until(lambda: "draining" in router.log, 1.0, "the drain")
    try:
        assert await router.readiness() == 503
    except AssertionError:
        assert await router.readiness() is None
    response = await short.response(within=3.0)
    assert response.end is End.COMPLETE
    assert response.body.endswith(DONE)
    assert time.monotonic() - started < DRAIN
    for client in (long, endless):
        assert_broken(await client.response(within=4.0))
        ended_at = client.responses[0].ended_at
        assert ended_at is not None
        assert DRAIN - 0.2 <= ended_at - started <= DRAIN + 0.5 + NOISE
    await assert_gone(router, a, started, DRAIN)


async def test_new_connections(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-32: who connects after the signal is refused or gets 503 with `Connection: close`, at once."""
    router = await router_factory()
    a.script = by_name
    client = await opened(router, good(seconds=100))
    idle = await RawClient.connect(router.data_port)
    assert (await idle.ask(request_bytes("GET", "/v1/models"))).status == 200
    untouched = await RawClient.connect(router.data_port)
    started = time.monotonic()
    router.send_signal(signal.SIGTERM)
    await until(lambda: "draining" in router.log, 1.0, "the drain")
    for _ in range(5):
        try:
            late = await ask(router.data_port, good())
        except (ConnectionError, AssertionError):
            continue
        assert (late.status, late.head.get("connection")) == (503, "close")
    for kept in (idle, untouched):
        try:
            response = await kept.ask(good(), within=2.0)
        except AssertionError:
            assert kept.peer_gone_at is not None
            continue
        assert (response.status, response.head.get("connection")) == (503, "close")
    assert len(a.requests) == 1
    await assert_gone(router, a, started, DRAIN)
    assert_broken(client.responses[0])


async def test_no_streams(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-32: idle keep-alive connections do not hold it up."""
    router = await router_factory()
    clients = [await RawClient.connect(router.data_port) for _ in range(10)]
    for client in clients[:5]:
        assert (await client.ask(good())).status == 200
    started = time.monotonic()
    router.send_signal(signal.SIGTERM)
    await assert_gone(router, a, started, 0.0)
    await until(
        lambda: all(client.peer_gone_at is not None for client in clients), 1.0, "client connections closed"
    )


@pytest.mark.parametrize("second", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
async def test_second_signal(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, second: signal.Signals
) -> None:
    """B-32: a second signal ends the drain at once, as visibly."""
    router = await router_factory({"server": {"drain_timeout": "60s"}})
    a.script = by_name
    client = await opened(router, good(seconds=1000))
    router.send_signal(signal.SIGTERM)
    await until(lambda: "draining" in router.log, 1.0, "the drain")
    await asyncio.sleep(0.3)
    assert router.alive
    started = time.monotonic()
    router.send_signal(second)
    assert_broken(await client.response(within=3.0))
    await assert_gone(router, a, started, 0.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("delay", [0.6, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.3, 1.0))])
async def test_during_start(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, delay: float, number: signal.Signals
) -> None:
    """B-32: a signal while it starts."""
    router = await router_factory(start=False)
    await router.start(ready=False)
    await asyncio.sleep(delay)
    router.send_signal(number)
    code = await router.wait_exit(5.0)
    assert code in (0, 1, 128 + number, -number)
    assert_clean_log(router.log)


async def test_whole_answers(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-32 with GOOD-NS: one that comes in time is whole, one that does not gets a 503."""
    router = await router_factory()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(float(json.loads(request.body)["seconds"]))
        await conn.reply(b'{"ok":true}')

    a.script = script
    quick, slow = [await RawClient.connect(router.data_port) for _ in range(2)]
    await quick.request(good_ns(seconds=1))
    await slow.request(good_ns(seconds=100))
    await a.wait_requests(2)
    started = time.monotonic()
    router.send_signal(signal.SIGTERM)
    assert (await quick.response()).status == 200
    response = await slow.response()
    assert (response.status, response.end) == (503, End.COMPLETE)
    assert response.json()["error"]["code"] == "draining"
    await assert_gone(router, a, started, DRAIN)


async def never_connects(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request that waits for a connection to its engine."""
    a.drop_syns()
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    return client


async def in_the_queue(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request in the router's queue."""
    a.script = silent
    await (await RawClient.connect(router.data_port)).request(good())
    await a.wait_requests(1)
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    return client


async def waits_for_first_byte(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request that its engine has not answered."""
    a.script = silent
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    await a.wait_requests(1)
    return client


async def waits_for_first_event(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request of which only the head was answered."""
    a.script = head_only
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    await a.wait_requests(1)
    return client


async def uploads_slowly(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request whose body is not whole."""
    client = await RawClient.connect(router.data_port)
    data = (("content-type", "application/json"), ("content-length", "1000000"))
    await client.request(request_bytes("POST", CHAT, data, b"") + b"{")
    return client


async def engine_reads_nothing(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request whose body is stuck on its way to the engine."""

    async def stuck(conn: EngineConn, request: RawRequest) -> None:
        conn.stop_reading()
        await conn.pause(600)

    a.script, a.call_at = stuck, "head"
    client = await RawClient.connect(router.data_port)
    await client.request(post(chat_body(stream=True, padding="x" * (20 * limits.MIB))))
    await a.wait_requests(1)
    return client


async def client_reads_nothing(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request whose answer is stuck on its way to the client."""

    async def flood(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        while True:
            await conn.chunk(b"data: " + b"x" * 65536 + b"\n\n")

    a.script = flood
    client = await RawClient.connect(router.data_port, receive_buffer=8192)
    await client.request(good())
    await client.started()
    client.stop_reading()
    await asyncio.sleep(0.5)
    return client


async def half_a_head(router: RouterProcess, a: FakeEngine) -> RawClient:
    """A request whose head is not whole."""
    client = await RawClient.connect(router.data_port)
    await client.request(good()[:40])
    return client


PLACES = [
    never_connects,
    in_the_queue,
    waits_for_first_byte,
    waits_for_first_event,
    uploads_slowly,
    engine_reads_nothing,
    client_reads_nothing,
    half_a_head,
]


ORDINARY = (never_connects, in_the_queue, uploads_slowly, client_reads_nothing)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, id=place.__name__, marks=() if place in ORDINARY else pytest.mark.slow)
        for place in PLACES
    ],
)
async def test_wherever_a_request_is(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, place: object
) -> None:
    """Kin of B-32: a request that is stuck anywhere is ended at the limit and the process with it."""
    config = {
        "server": {"drain_timeout": "1s", "max_active": 1, "queue_size": 5},
        "timeouts": {"connect": "60s", "client_write": "60s"},
        "health": {"failure_threshold": 1000},
    }
    router = await router_factory(config)
    client: RawClient = await place(router, a)  # type: ignore[operator]
    await asyncio.sleep(0.2)
    started = time.monotonic()
    router.send_signal(signal.SIGTERM)
    code = await router.wait_exit(1.0 + LATE + NOISE + 2.0)
    assert time.monotonic() - started <= 1.0 + LATE + NOISE
    assert code == 0
    assert_clean_log(router.log)
    client.start_reading()
    await until(lambda: client.peer_gone_at is not None, 5.0, "the client's connection ended")
    if place in (
        in_the_queue,
        waits_for_first_byte,
        waits_for_first_event,
        never_connects,
        engine_reads_nothing,
    ):
        assert client.responses, "an answer was due"
        assert client.responses[0].status == 503
    a.up()


@pytest.mark.parametrize("sdk", SDKS)
async def test_sdk_raises(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, sdk: Sdk) -> None:
    """B-32: an SDK raises on a stream that the drain cut."""
    router = await router_factory({"server": {"drain_timeout": "1500ms"}})
    a.script = ticking(0.1)
    task = asyncio.create_task(sdk_chat(sdk, router.data_port, stream=True))
    await a.wait_requests(1)
    await asyncio.sleep(0.3)
    router.send_signal(signal.SIGTERM)
    answer = await asyncio.wait_for(task, 10.0)
    assert answer.error is not None
    await router.wait_exit(5.0)


async def test_many_streams(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-32: a hundred endless streams are told and closed in the same second."""
    router = await router_factory({"server": {"drain_timeout": "1s"}})
    a.script = ticking(0.1)
    clients = [await opened(router, good()) for _ in range(100)]
    started = time.monotonic()
    router.send_signal(signal.SIGTERM)
    for client in clients:
        assert_broken(await client.response(within=4.0))
    await assert_gone(router, a, started, 1.0)


async def test_admin_stays_until_the_end(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-32: metrics and status can be read while it drains, and say so."""
    router = await router_factory()
    a.script = ticking(0.1)
    await opened(router, good())
    router.send_signal(signal.SIGTERM)
    await until(lambda: "draining" in router.log, 1.0, "the drain")
    assert (await router.status())["draining"] is True
    assert (await router.metrics()).in_flight("speculative") == 1
    assert (await router.get("/readyz", admin=True)).status == 503
    await router.wait_exit(DRAIN + LATE + NOISE)
