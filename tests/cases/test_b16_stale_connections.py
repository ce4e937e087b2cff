"""B-16: a connection is reused that its peer has just closed.

Right value: no error that a client can see. A reused connection that dies without one response byte is
replaced once by a fresh one, and that is not held against the engine; on a fresh connection B-14 applies.
Towards clients an idle connection is kept for 75 s by default.
"""

from __future__ import annotations

import asyncio

import pytest

from .conftest import RouterFactory
from .kit.client import End, RawClient, ask, chat_body, good, good_ns, post, request_bytes
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.quiet import assert_quiet
from .kit.recover import drop_pooled
from .kit.router import RouterProcess
from .kit.sse import chat_answer, chat_events

# One failure would show at once.
CONFIG = {"breaker": {"failure_threshold": 1}, "health": {"failure_threshold": 1000}}


def close_after(seconds: float) -> Script:
    """(a) An ordinary answer; the connection is closed so long after it, however it is."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(chat_answer())
        if len(conn.requests) == 1:
            asyncio.get_running_loop().call_later(seconds, conn.fin)

    return script


async def reset_on_reuse(conn: EngineConn, request: RawRequest) -> None:
    """(b) The second request on a connection meets RST when its first bytes have been read."""
    if len(conn.requests) > 1:
        conn.rst()
    else:
        await conn.reply(chat_answer())


async def fin_on_reuse(conn: EngineConn, request: RawRequest) -> None:
    """Kin of (b): FIN."""
    if len(conn.requests) > 1:
        conn.fin()
    else:
        await conn.reply(chat_answer())


async def announce_two_seconds(conn: EngineConn, request: RawRequest) -> None:
    """(c) `Keep-Alive: timeout=2`, and that is what it does."""
    await conn.reply(
        chat_answer(), headers=(("content-type", "application/json"), ("Keep-Alive", "timeout=2"))
    )
    if len(conn.requests) == 1:
        asyncio.get_running_loop().call_later(2.0, conn.fin)


async def assert_blameless(router: RouterProcess, b: FakeEngine) -> None:
    """Nothing failed, nobody else was asked, the breaker did not move."""
    metrics = await router.metrics()
    assert metrics.sum("requests_total", outcome="failed") == 0
    assert metrics.sum("breaker_state") == 0
    assert b.requests == []


async def ask_in_rhythm(router: RouterProcess, gap: float, count: int) -> None:
    """GOOD-NS each `gap` seconds over one client connection."""
    async with await RawClient.connect(router.data_port) as client:
        for _ in range(count):
            response = await client.ask(good_ns())
            assert (response.status, bytes(response.body)) == (200, chat_answer())
            await asyncio.sleep(gap)


async def test_closed_after_a_while(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-16 (a), scaled: closed 0.5 s after an answer; requests each 0.45 to 0.55 s."""
    a.script = close_after(0.5)
    gaps = (0.45, 0.49, 0.495, 0.5, 0.5, 0.505, 0.51, 0.55)
    await asyncio.gather(*(ask_in_rhythm(router, gap, 8) for gap in gaps))
    assert a.accepted > 8, "nothing was closed"
    await assert_blameless(router, b)
    await assert_quiet(router, a, b)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("keep", [1.0, 5.0])
async def test_closed_after_a_while_full(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, keep: float
) -> None:
    """B-16 (a) at full length, for SGLang's 5 s as well."""
    a.script = close_after(keep)
    gaps = (0.9, 1.0, 1.1, 4.9, 5.0, 5.1)
    await asyncio.gather(*(ask_in_rhythm(router, gap, int(60 / gap)) for gap in gaps))
    await assert_blameless(router, b)
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("script", [reset_on_reuse, fin_on_reuse], ids=["rst", "fin"])
@pytest.mark.parametrize(
    "data",
    [good_ns(), good(), post(chat_body(stream=False, padding="x" * 2_000_000))],
    ids=["whole", "stream", "2MB"],
)
async def test_closed_on_reuse(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script, data: bytes
) -> None:
    """B-16 (b): closed in the very moment that a second request arrives."""
    a.script = script
    await drop_pooled(a, b)
    async with await RawClient.connect(router.data_port) as client:
        for _ in range(10):
            response = await client.ask(data)
            assert (response.status, bytes(response.body)) == (200, chat_answer())
    assert len(a.requests) == 10 + 9
    await assert_blameless(router, b)
    await assert_quiet(router, a, b)


async def test_announced_limit(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-16 (c): `Keep-Alive: timeout=2`."""
    a.script = announce_two_seconds
    await asyncio.gather(*(ask_in_rhythm(router, gap, 2) for gap in (1.98, 1.99, 2.0, 2.01)))
    await assert_blameless(router, b)


async def test_all_idle_connections_at_once(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-16: many pooled connections die together, as when an engine is restarted."""
    for way in ("rst", "fin", "restart"):
        responses = await asyncio.gather(*(ask(router.data_port, good()) for _ in range(20)))
        assert {response.status for response in responses} == {200}
        if way == "restart":
            a.down(reset=True)
            a.up()
        for conn in list(a.live):
            conn.rst() if way == "rst" else conn.fin()
    responses = await asyncio.gather(*(ask(router.data_port, good()) for _ in range(20)))
    assert {response.status for response in responses} == {200}
    await assert_blameless(router, b)


async def test_closed_together_with_the_answer(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-16: FIN right behind an answer that promised to keep the connection."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(chat_answer())
        conn.fin()

    a.script = script
    async with await RawClient.connect(router.data_port) as client:
        for _ in range(30):
            assert (await client.ask(good_ns())).status == 200
    await assert_blameless(router, b)


async def test_bytes_nobody_asked_for(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-16: an idle connection that speaks is not used again; its bytes answer nobody."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(chat_answer())
        await conn.send(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")

    a.script = script
    async with await RawClient.connect(router.data_port) as client:
        for _ in range(10):
            response = await client.ask(good_ns())
            assert (response.status, bytes(response.body)) == (200, chat_answer())
    await assert_blameless(router, b)


async def test_dies_during_a_reused_answer(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-16: once a response byte has come, a reused connection is like any other."""
    router = await router_factory()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        if len(conn.requests) == 1:
            await conn.reply(chat_answer())
            return
        await conn.head()
        await conn.chunk(chat_events()[0])
        await conn.pause(0.05)
        conn.rst()

    a.script = script
    assert (await ask(router.data_port, good_ns())).status == 200
    response = await ask(router.data_port, good())
    assert response.end in (End.EOF, End.RST)
    assert (len(a.requests), len(b.requests)) == (2, 0)


@pytest.mark.parametrize("target", ["/v1/models", "/model_info"])
async def test_side_routes(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine, target: str) -> None:
    """Kin of B-16: model lists come over pooled connections too, with one engine as with two."""
    router = await router_factory()
    b.down()
    a.down(reset=True)
    a.up()
    plain = a.control[target]

    async def on_reuse(conn: EngineConn, request: RawRequest) -> None:
        if len(conn.requests) > 1:
            conn.rst()
        else:
            await plain(conn, request)

    a.control[target] = on_reuse
    for _ in range(5):
        assert (await router.get(target)).status == 200
    b.up()


async def test_client_side_keep_alive(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-16: an idle client connection lives longer than the 5 s that servers like uvicorn give it."""
    async with await RawClient.connect(router.data_port) as client:
        assert (await client.ask(good_ns())).status == 200
        await asyncio.sleep(5.5)
        assert (await client.ask(good_ns())).status == 200


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_client_side_keep_alive_full(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-16: 70 s idle, below the default of 75 s."""
    async with await RawClient.connect(router.data_port) as client:
        assert (await client.ask(good_ns())).status == 200
        await asyncio.sleep(70)
        assert (await client.ask(good_ns())).status == 200


async def test_client_side_limit(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """B-16: the limit is configurable; an idle connection ends with FIN and without a byte."""
    router = await router_factory({"timeouts": {"keep_alive": "500ms"}})
    client = await RawClient.connect(router.data_port)
    assert (await client.ask(request_bytes("GET", "/v1/models"))).status == 200
    received = client.bytes_received
    await asyncio.sleep(1.0)
    assert client.fin_at is not None
    assert client.rst_at is None
    assert client.bytes_received == received
    client.fin()
