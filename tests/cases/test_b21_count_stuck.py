"""B-21: the in-flight count is stuck after failures.

Right value: whatever a thousand requests die of, the gauge is exactly 0 afterwards, never above the true
number of open client requests, and the switch behaves as on a fresh start.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from .kit import limits
from .kit.client import CHAT, RawClient, ask, chat_body, good, good_ns, post, request_bytes
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.engine import good as good_script
from .kit.quiet import assert_quiet
from .kit.recover import recover
from .kit.router import RouterProcess
from .kit.scripts import breaking, replying, reset, silent, ticking
from .kit.sse import chat_events, error_event
from .kit.waiting import until

CONFIG = {
    "server": {"max_body": "256KiB", "max_active": 60, "queue_size": 20, "queue_timeout": "500ms"},
    "policy": {"high": 8, "low": 3, "dwell": "0s", "smoothing": "0s"},
    "timeouts": {"first_byte": "600ms", "idle": "600ms", "client_body": "500ms", "total": "3s"},
    "breaker": {"failure_threshold": 5, "success_threshold": 1, "open_for": "200ms"},
}


async def long_header(conn: EngineConn, request: RawRequest) -> None:
    """A header line of 100 KiB."""
    await conn.send(b"HTTP/1.1 200 OK\r\nx-long: " + b"y" * 100 * 1024 + b"\r\ncontent-length: 2\r\n\r\n{}")


async def endless_header(conn: EngineConn, request: RawRequest) -> None:
    """A header line without end."""
    await conn.send(b"HTTP/1.1 200 OK\r\nx-long: ")
    while True:
        await conn.send(b"y" * 64 * 1024)


async def nonsense(conn: EngineConn, request: RawRequest) -> None:
    """No HTTP."""
    await conn.send(b"\x00\x01\x02 hello\r\n\r\n")


async def length_nonsense(conn: EngineConn, request: RawRequest) -> None:
    """A length that is none."""
    await conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n{}")


async def switching(conn: EngineConn, request: RawRequest) -> None:
    """An upgrade that nobody asked for."""
    await conn.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")


async def busy_stream(conn: EngineConn, request: RawRequest) -> None:
    """Overload as a first event."""
    await conn.stream([error_event(503), b"data: [DONE]\n\n"])


async def odd_status(conn: EngineConn, request: RawRequest) -> None:
    """A status that no table knows."""
    await conn.send(b"HTTP/1.1 799 Odd\r\ncontent-length: 2\r\n\r\n{}")


async def bad_header_name(conn: EngineConn, request: RawRequest) -> None:
    """A response header that uvicorn refuses to send on."""
    await conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx bad: 1\r\n\r\n{}")


async def bad_header_value(conn: EngineConn, request: RawRequest) -> None:
    """The same for a value."""
    await conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-bad: a\x01b\r\n\r\n{}")


async def too_much_body(conn: EngineConn, request: RawRequest) -> None:
    """More body than the length says."""
    await conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}{}{}{}")


async def two_lengths(conn: EngineConn, request: RawRequest) -> None:
    """Two lengths that differ."""
    await conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 4\r\n\r\n{}{}")


async def no_content(conn: EngineConn, request: RawRequest) -> None:
    """An answer without a body."""
    await conn.send(b"HTTP/1.1 204 No Content\r\n\r\n")


ODD: dict[str, Script] = {
    "long_header": long_header,
    "endless_header": endless_header,
    "nonsense": nonsense,
    "length_nonsense": length_nonsense,
    "switching": switching,
    "odd_status": odd_status,
    "bad_header_name": bad_header_name,
    "bad_header_value": bad_header_value,
    "too_much_body": too_much_body,
    "two_lengths": two_lengths,
    "no_content": no_content,
}
ENGINE_WAYS: list[Script] = [
    good_script,
    good_script,
    reset,
    breaking([]),
    breaking(chat_events(tail=False)),
    breaking(chat_events(tail=False), end="fin"),
    replying("500 Internal Server Error"),
    replying("503 Service Unavailable"),
    replying("400 Bad Request"),
    busy_stream,
    silent,
    ticking(0.05, 3),
    *ODD.values(),
]


async def whole(port: int, rng: random.Random) -> None:
    """An ordinary client, who waits for whatever comes."""
    async with await RawClient.connect(port) as client:
        await client.request(good() if rng.random() < 0.7 else good_ns())
        await until(lambda: client.peer_gone_at or ended(client), 15.0, "an end")


def ended(client: RawClient) -> bool:
    """The first response has ended."""
    return bool(client.responses) and client.responses[0].ended_at is not None


async def leaving(port: int, rng: random.Random) -> None:
    """A client who leaves at a random moment."""
    client = await RawClient.connect(port)
    data = good()
    await client.request(data[: rng.randrange(1, len(data))] if rng.random() < 0.3 else data)
    await asyncio.sleep(rng.uniform(0.0, 0.3))
    client.rst() if rng.random() < 0.7 else client.fin()


async def bad_json(port: int, rng: random.Random) -> None:
    """A body that is none."""
    response = await ask(port, post(rng.choice([b"{", b"[]", b"", b"nul"])), 10.0)
    assert response.status == 400


async def too_large(port: int, rng: random.Random) -> None:
    """A body over the limit, announced or not."""
    response = await ask(port, post(chat_body(stream=True, padding="x" * 300_000)), 10.0)
    assert response.status == 413


async def stalled_upload(port: int, rng: random.Random) -> None:
    """A body that stops."""
    head = request_bytes("POST", CHAT, (("content-type", "application/json"), ("content-length", "100")), b"")
    async with await RawClient.connect(port) as client:
        assert (await client.ask(head, 10.0)).status == 408


async def unknown(port: int, rng: random.Random) -> None:
    """A route that is none."""
    assert (await ask(port, post(b"{}", "/v1/nothing"), 10.0)).status == 404


CLIENT_WAYS: list[Callable[[int, random.Random], Awaitable[None]]] = [
    *[whole] * 8,
    *[leaving] * 4,
    bad_json,
    too_large,
    stalled_upload,
    unknown,
]


def mix(rng: random.Random) -> Script:
    """Another way each time."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await rng.choice(ENGINE_WAYS)(conn, request)

    return script


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.timeout(180)
async def test_mixture(router: RouterProcess, a: FakeEngine, b: FakeEngine, count: int) -> None:
    """B-21: a mixture of all that can go wrong on both sides, while A comes and goes."""
    rng = random.Random(21)
    a.script = b.script = mix(rng)
    gate = asyncio.Semaphore(30)
    open_now = 0
    most = 0

    async def one() -> None:
        nonlocal open_now, most
        async with gate:
            open_now += 1
            most = max(most, open_now)
            await rng.choice(CLIENT_WAYS)(router.data_port, rng)
            open_now -= 1

    async def come_and_go() -> None:
        while True:
            await asyncio.sleep(rng.uniform(0.5, 1.0))
            a.down(reset=rng.random() < 0.5)
            await asyncio.sleep(rng.uniform(0.1, 0.4))
            a.up()

    log_from = len(router.log)
    mover = asyncio.create_task(come_and_go())
    async with router.scraper() as scraper:
        await asyncio.gather(*(one() for _ in range(count)))
        mover.cancel()
        a.up()
        a.use_good_script()
        b.use_good_script()
        await until(lambda: not a.open_requests() and not b.open_requests(), 4.0, "engines idle")
        await recover(router)
        await assert_quiet(router, a, b, scraper=scraper, log_from=log_from)
    assert sum(scraper.peak.values()) >= 1
    assert all(value <= most for value in scraper.peak.values()), (scraper.peak, most)
    await assert_switches_as_new(router, a, b)


async def assert_switches_as_new(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Seven requests stay on A, the eighth goes to B, and at three they come back."""
    # B's breaker may wait for its trial: a refusal by A sends it one.
    while (await router.metrics()).sum("breaker_state", path="baseline"):
        a.script = replying("503 Service Unavailable")
        await ask(router.data_port, good())
        await asyncio.sleep(0.05)
    before = (await router.metrics()).sum("switches_total", reason="high")
    a.script = b.script = ticking(0.1)
    clients: list[RawClient] = []
    for number in range(8):
        client = await RawClient.connect(router.data_port)
        await client.request(good())
        response = await client.started()
        assert response.path == ("baseline" if number == 7 else "speculative")
        clients.append(client)
    metrics = await router.metrics()
    assert (metrics.in_flight("speculative"), metrics.in_flight("baseline")) == (7, 1)
    assert metrics.sum("switches_total", reason="high") == before + 1
    for client in clients:
        client.rst()
    await assert_quiet(router, a, b, expect=a)


@pytest.mark.parametrize("script", ODD.values(), ids=ODD)
async def test_odd_answers(router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script) -> None:
    """B-21: answers that nobody foresees end in one error, no count is left, and memory is bounded."""
    await recover(router)
    log_from, before = len(router.log), router.rss_bytes()
    a.script = b.script = script
    async with await RawClient.connect(router.data_port) as client:
        await client.request(good())
        await until(lambda: client.peer_gone_at or ended(client), 5.0, "an end")
        if script not in (too_much_body, no_content):
            assert client.responses[0].status == 502
    await until(lambda: not a.open_requests() and not b.open_requests(), 2.0, "engines idle")
    assert router.rss_bytes() - before < 8 * limits.MIB
    a.use_good_script()
    b.use_good_script()
    await recover(router)
    await assert_quiet(router, a, b, log_from=log_from)
