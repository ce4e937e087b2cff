"""The listening side against clients that send odd, ambiguous, slow or oversized HTTP."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.cases.kit.client import (
    CHAT,
    End,
    RawClient,
    assert_openai_error,
    chat_body,
    good,
    good_ns,
    post,
    request_bytes,
)
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.sse import DONE, chunked
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.holding import Holding
from tests.support.running import Running

BODY = chat_body(stream=False)
START = f"POST {CHAT} HTTP/1.1\r\nhost: r\r\ncontent-type: application/json\r\n".encode()
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = chunked(BODY)

# More than one meaning, or none: two parties could take the message to end in different places.
REFUSED: dict[str, bytes] = {
    "length_and_chunks": START + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
    "chunks_and_length": START + CHUNKED + LENGTH + b"\r\n" + CHUNKS,
    "two_lengths": START + LENGTH + b"content-length: 3\r\n\r\n" + BODY,
    "same_length_twice": START + LENGTH + LENGTH + b"\r\n" + BODY,
    "list_of_lengths": START + b"content-length: %d, %d\r\n\r\n" % (len(BODY), len(BODY)) + BODY,
    "negative_length": START + b"content-length: -1\r\n\r\n" + BODY,
    "signed_length": START + b"content-length: +%d\r\n\r\n" % len(BODY) + BODY,
    "hex_length": START + b"content-length: 0x10\r\n\r\n" + BODY,
    "huge_length": START + b"content-length: 99999999999999999999999\r\n\r\n" + BODY,
    "two_hosts": START + b"host: other\r\n" + LENGTH + b"\r\n" + BODY,
    "no_host": START.replace(b"host: r\r\n", b"") + LENGTH + b"\r\n" + BODY,
    "folded_header": START + b"x-a: 1\r\n  2\r\n" + LENGTH + b"\r\n" + BODY,
    "folded_with_tab": START + b"transfer-encoding:\r\n\tchunked\r\n\r\n" + CHUNKS,
    "bare_line_feeds": (START + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY,
    "bare_line_feed_in_head": START + b"x-a: 1\nx-b: 2\r\n" + LENGTH + b"\r\n" + BODY,
    "bare_carriage_return": START + b"x-a: 1\rx-b: 2\r\n" + LENGTH + b"\r\n" + BODY,
    "zero_byte_in_header": START + b"x-a: 1\x002\r\n" + LENGTH + b"\r\n" + BODY,
    "space_before_colon": START + b"transfer-encoding : chunked\r\n\r\n" + CHUNKS,
    "no_colon": START + b"nonsense\r\n" + LENGTH + b"\r\n" + BODY,
    "coding_twice": START + CHUNKED + CHUNKED + b"\r\n" + CHUNKS,
    "other_coding": START + b"transfer-encoding: gzip\r\n\r\n" + CHUNKS,
    "coding_list": START + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS,
    "coding_not_last": START + b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "odd_coding": START + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS,
    "coding_of_1_0": START.replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKED + b"\r\n" + CHUNKS,
    "bad_chunk_size": START + CHUNKED + b"\r\nzz\r\n" + BODY,
    "negative_chunk": START + CHUNKED + b"\r\n-5\r\n" + BODY,
    "huge_chunk": START + CHUNKED + b"\r\nfffffffffffffffffffff\r\n" + BODY,
    "chunk_without_line_end": START + CHUNKED + b"\r\n5\r\nhelloX0\r\n\r\n",
    "chunk_with_bare_line_feed": START + CHUNKED + b"\r\n%x\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "unknown_method": START.replace(b"POST", b"FROB") + LENGTH + b"\r\n" + BODY,
    "small_method": START.replace(b"POST", b"post") + LENGTH + b"\r\n" + BODY,
    "odd_version": START.replace(b"HTTP/1.1", b"HTTP/7.3") + LENGTH + b"\r\n" + BODY,
    "old_version": b"GET /healthz\r\n\r\n",
    "next_version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(128)),
    "space_in_target": b"GET /healthz x HTTP/1.1\r\nhost: r\r\n\r\n",
    "large_header": START + b"x-a: " + b"y" * 70_000 + b"\r\n" + LENGTH + b"\r\n" + BODY,
    "many_headers": START
    + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 90) for n in range(800))
    + LENGTH
    + b"\r\n"
    + BODY,
    "long_target": request_bytes("GET", "/v1/models?" + "x" * 70_000),
}


async def test_messages_with_no_single_meaning(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    """Each is answered with one error and a closed connection, and no engine sees any of it."""
    for name, data in REFUSED.items():
        async with await RawClient.connect(router.data) as client:
            await client.request(data)
            try:
                response = await client.response(within=2.0)
                error = assert_openai_error(response, 400)
            except AssertionError as problem:
                raise AssertionError(f"{name}: {problem}") from problem
            assert error["type"] == "invalid_request_error", name
            await until(lambda who=client: who.peer_is_gone(), 2.0, f"{name}: closed")  # type: ignore[misc]
            assert len(client.responses) == 1, f"{name}: the rest was taken for another request"
    assert not a.requests + b.requests


async def test_a_head_without_end_is_not_read_to_its_end(router: Running) -> None:
    for beginning in (START + b"x-endless: ", b"GET /v1/models?", b"POST "):
        async with await RawClient.connect(router.data) as client:
            sent = 0
            await client.request(beginning)
            try:
                while sent < 8 << 20 and not client.responses:
                    await client.send(b"y" * 32768)
                    sent += 32768
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            assert sent < 4 << 20
            if client.responses:
                assert_openai_error(client.responses[0], 400)


async def test_a_head_that_takes_too_long(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, timeouts={"client_header": "250ms"})
    async with await RawClient.connect(router.data) as client, await RawClient.connect(router.data) as silent:
        began = time.monotonic()
        await client.request(START[:20])
        for at in range(20, 24):  # a byte now and then does not buy time
            await asyncio.sleep(0.04)
            await client.send(START[at : at + 1])
        response = await client.response(within=2.0)
        assert assert_openai_error(response, 408)["code"] == "request_timeout"
        assert time.monotonic() - began < 1.5
        await until(silent.peer_is_gone, 2.0, "who says nothing is closed too")
    async with await RawClient.connect(router.data) as client:
        assert (await client.ask(good())).status == 200
        await asyncio.sleep(0.3)
        assert (await client.ask(good())).status == 200, "the limit is a head's, not an idle connection's"
        await client.request(START[:20])
        response = await client.response(2, within=2.0)
        assert_openai_error(response, 408)


async def test_trailers_do_not_become_headers(router: Running, a: FakeEngine) -> None:
    data = (
        START
        + CHUNKED
        + b"trailer: x-late\r\n\r\n"
        + CHUNKS[:-2]
        + b"x-late: 1\r\nauthorization: Bearer x\r\n\r\n"
    )
    async with await RawClient.connect(router.data) as client:
        assert (await client.ask(data)).status == 200
        assert (await client.ask(good_ns())).status == 200
    for request in a.requests:
        assert not request.head.names() & {"x-late", "authorization", "trailer", "transfer-encoding"}
        assert request.head.get("content-length") == str(len(BODY))


async def test_hop_by_hop_headers_stay_on_their_hop(router: Running, a: FakeEngine) -> None:
    own = (
        ("connection", "keep-alive, X-Private, content-type"),
        ("keep-alive", "timeout=5"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic x"),
        ("x-kept", "1"),
    )
    await router.ask(post(BODY, headers=own))
    names = a.requests[0].head.names()
    assert "x-kept" in names
    assert not names & {"keep-alive", "x-private", "te", "proxy-authorization"}


async def test_pipelined_requests_are_answered_in_order(router: Running, a: FakeEngine) -> None:
    held = Holding(a)
    targets = (good_ns(), request_bytes("GET", "/healthz"), good(), request_bytes("GET", "/nope"), good_ns())
    async with await RawClient.connect(router.data) as client:
        await client.request(b"".join(targets))
        for _ in range(3):
            await until(lambda: held.held == 1, 2.0, "one at a time")
            held.release()
        responses = [await client.response(number, within=2.0) for number in range(5)]
    assert [response.status for response in responses] == [200, 200, 200, 404, 200]
    assert [response.path for response in responses] == [
        "speculative",
        None,
        "speculative",
        None,
        "speculative",
    ]
    assert responses[2].body.endswith(DONE)
    assert all(response.end is End.COMPLETE for response in responses)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_disconnect_ends_all_pipelined_requests(
    router: Running, a: FakeEngine, *, reset: bool
) -> None:
    held = Holding(a)
    client = await RawClient.connect(router.data)
    await client.request(good() + good_ns() + good())
    await until(lambda: held.held == 1, 2.0)
    client.rst() if reset else client.fin()
    await until(lambda: a.open_requests() == 0, 2.0)
    await router.quiet()
    assert len(a.requests) == 1, "those that waited never reached an engine"
    assert router.ledger.closed["cancelled"] == router.ledger.opened == 1


UPGRADE = b"connection: Upgrade\r\nupgrade: "
OFFERS = {
    "h2c": UPGRADE.replace(b"\r\n", b", HTTP2-Settings\r\n")
    + b"h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIA\r\n",
    "websocket": UPGRADE + b"websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n",
    "unknown": UPGRADE + b"TLS/1.0\r\n",
}


@pytest.mark.parametrize("name", OFFERS)
async def test_offers_to_upgrade_are_ignored(router: Running, a: FakeEngine, name: str) -> None:
    offer = OFFERS[name]
    async with await RawClient.connect(router.data) as client:
        requests = (
            b"GET /healthz HTTP/1.1\r\nhost: r\r\n" + offer + b"\r\n",
            START + offer + LENGTH + b"\r\n" + BODY,
            START + offer + CHUNKED + b"\r\n" + CHUNKS,
            good_ns(),
        )
        responses = [await client.ask(data, within=2.0) for data in requests]
        await client.request(START + offer + LENGTH + b"\r\n")
        for at in range(0, len(BODY), 40):
            await client.send(BODY[at : at + 40])
            await asyncio.sleep(0)
        responses.append(await client.response(4, within=2.0))
        await client.request(START + offer + LENGTH + b"\r\n" + BODY + good_ns())
        responses += [await client.response(number, within=2.0) for number in (5, 6)]
    assert [response.status for response in responses] == [200] * 7
    assert [bytes(request.body) for request in a.requests] == [BODY] * 6
    assert all("upgrade" not in request.head.names() for request in a.requests)


async def test_clients_of_http_1_0(router: Running) -> None:
    """No chunks, which they cannot read; the end of the connection is the end of the answer."""
    for stream in (False, True):
        body = chat_body(stream=stream)
        data = b"POST %s HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body
        response = await router.ask(data, within=2.0)
        assert (response.status, response.end) == (200, End.COMPLETE)
        assert response.head.get("transfer-encoding") is None
        assert (b"[DONE]" in response.body) is stream
    response = await router.ask(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (response.status, response.json()) == (200, {"status": "ok"})


async def test_a_cut_answer_to_http_1_0_can_be_told(router: Running, a: FakeEngine) -> None:
    """Where the end of the connection ends the answer, an error event or a reset says what is missing."""

    async def breaking(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(b'data: {"x": 1}\n\n')
        await conn.pause(0.05)
        conn.rst()

    a.script = breaking
    body = chat_body(stream=True)
    data = b"POST %s HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body
    response = await router.ask(data, within=5.0)
    assert response.end is End.RST or b'"error"' in response.body


async def test_expect_continue(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"max_body": "64KiB"})
    async with await RawClient.connect(router.data) as client:
        await client.request(START + b"expect: 100-continue\r\n" + LENGTH + b"\r\n")
        await asyncio.sleep(0.05)
        await client.send(BODY)
        response = await client.response(within=2.0)
        assert [head.line.split(" ")[1] for head in response.interim] == ["100"]
        assert response.status == 200
    async with await RawClient.connect(router.data) as client:
        await client.request(START + b"expect: 100-continue\r\ncontent-length: 70000\r\n\r\n")
        response = await client.response(within=2.0)
        assert_openai_error(response, 413)
        assert not response.interim, "told before it sends"
        await until(client.peer_is_gone, 2.0, "what follows could be the body or a request")
    assert len(a.requests) == 1
    assert a.requests[0].head.get("expect") is None


async def test_connections_are_kept_and_closed_as_asked(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    router = await start(a, b, timeouts={"keep_alive": "300ms"})
    async with await RawClient.connect(router.data) as client:
        for data in (good(), good_ns(), request_bytes("GET", "/nope"), post(b"[]"), good()) * 4:
            assert (await client.ask(data)).end is End.COMPLETE
        began = time.monotonic()
        await until(client.peer_is_gone, 2.0, "closed when idle for the limit")
        assert time.monotonic() - began > 0.2
    async with await RawClient.connect(router.data) as client:
        response = await client.ask(good((("connection", "close"),)))
        assert response.end is End.COMPLETE
        await until(client.peer_is_gone, 1.0, "closed as the client asked")


async def test_bytes_one_at_a_time(router: Running, a: FakeEngine) -> None:
    data = START + CHUNKED + b"\r\n" + CHUNKS
    async with await RawClient.connect(router.data) as client:
        await client.request(data[:1])
        for at in range(1, len(data)):
            await client.send(data[at : at + 1])
            await asyncio.sleep(0)
        response = await client.response(within=5.0)
    assert response.status == 200
    assert bytes(a.requests[0].body) == BODY


async def test_the_admin_port_has_the_same_guards(router: Running) -> None:
    async with await RawClient.connect(router.admin) as client:
        response = await client.ask(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: evil\r\n\r\n")
        assert_openai_error(response, 400)
