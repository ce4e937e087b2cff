"""The kit against itself: what the cases rely on when they blame the router."""

from __future__ import annotations

import time

import pytest

from .kit.client import End, RawClient, ask, chat_body, good, good_ns, post, post_chunked, request_bytes
from .kit.engine import EngineConn, FakeEngine, RawRequest
from .kit.metrics import parse_metrics
from .kit.sse import chat_answer, chat_events, chunked, split_at, split_every, split_randomly
from .kit.waiting import until


async def test_default_answers(a: FakeEngine) -> None:
    stream = await ask(a.port, good())
    assert (stream.status, stream.end, bytes(stream.body)) == (200, End.COMPLETE, b"".join(chat_events()))
    assert stream.reader.chunk_sizes == [*(len(event) for event in chat_events()), 0]
    whole = await ask(a.port, good_ns())
    assert bytes(whole.body) == chat_answer()
    assert [request.path for request in a.requests] == ["/v1/chat/completions"] * 2
    for target in a.control:
        assert (await ask(a.port, request_bytes("GET", target))).status == 200
    assert len(a.requests) == 2
    assert a.open_requests() == 0


async def test_request_framings(a: FakeEngine) -> None:
    body = chat_body(stream=False)
    async with await RawClient.connect(a.port) as client:
        await client.ask(post(body))
        await client.ask(post_chunked(split_every(body, 3)))
        await client.send_pieces(split_every(post_chunked([body]), 7))
        await client.wait(lambda: len(client.responses) == 3, 5.0, "third answer")
    assert [bytes(request.body) for request in a.requests] == [body] * 3
    assert a.accepted == 1


@pytest.mark.parametrize("split", ["byte", "random", "framing"])
async def test_response_splits(a: FakeEngine, split: str) -> None:
    events = chat_events()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        wire = chunked(*events)
        pieces = {
            "byte": split_every(wire, 1),
            "random": split_randomly(wire, 1),
            "framing": split_at(wire, b"\r\n", b"data:", b"[DONE]"),
        }
        assert b"".join(pieces[split]) == wire
        await conn.head()
        await conn.send_pieces(pieces[split])

    a.script = script
    response = await ask(a.port, good())
    assert bytes(response.body) == b"".join(events)
    assert response.end is End.COMPLETE


async def test_engine_sees_the_client_leave(a: FakeEngine) -> None:
    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(60)

    a.script = script
    for way in ("fin", "rst"):
        client = await RawClient.connect(a.port)
        await client.request(good())
        await until(lambda: a.open_requests() == 1, 5.0, "open request")
        left = time.monotonic()
        client.fin() if way == "fin" else client.rst()
        conn = a.conns[-1]
        assert await a.wait_closed(conn, 2.0) >= left
        assert (conn.rst_at is not None) == (way == "rst")
        assert a.open_requests() == 0


async def test_client_sees_the_engine_leave(a: FakeEngine) -> None:
    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(b"data: 1\n\n")
        await conn.pause(0.05)
        conn.rst() if b"rst" in request.body else conn.fin()

    a.script = script
    assert (await ask(a.port, good(user="rst"))).end is End.RST
    assert (await ask(a.port, good())).end is End.EOF


async def test_stopped_reader_fills_the_window(a: FakeEngine) -> None:
    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        for _ in range(1000):
            await conn.chunk(b"x" * 65536)

    a.script = script
    async with await RawClient.connect(a.port, receive_buffer=16384) as client:
        client.stop_reading()
        await client.request(good())
        await until(lambda: a.requests, 5.0, "request")
        conn = a.conns[-1]
        seen = -1
        while seen != conn.bytes_sent:
            seen = conn.bytes_sent
            await client.pause(0.2)
        assert 0 < seen < 60_000_000
        client.read_slowly(4096, 0.001)
        client.start_reading()
        await until(lambda: client.bytes_received > 40_000, 5.0, "some bytes")
        client.rst()
        await a.wait_closed(conn, 2.0)


async def test_down_and_hanging(a: FakeEngine) -> None:
    a.down()
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(a.port)
    a.up()
    a.stop_accepting()
    client = await RawClient.connect(a.port)
    await client.request(good_ns())
    assert not a.requests
    a.accept()
    assert (await client.response()).status == 200
    client.fin()


def test_metrics_reader() -> None:
    series = 'spec_router_in_flight{{pair="default",path="{}"}} {}\n'
    metrics = parse_metrics(series.format("queue", 2) + series.format("baseline", 1))
    assert metrics.in_flight("queue") == 2
    assert metrics.sum("in_flight") == 3
    assert metrics.sum("in_flight", path="none") == 0
