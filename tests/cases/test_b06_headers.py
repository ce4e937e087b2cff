"""B-06: hop-by-hop and framing headers copied; headers doubled.

Right value: no hop-by-hop field, and none that `Connection` names, crosses in either direction
(RFC 9110 §7.6.1). Exactly one of content-length and transfer-encoding reaches each side (RFC 9112 §6.2), with
the true length. Exactly one `server` and one `date`. An upstream `Connection: close` does not close the
client's connection.
"""

from __future__ import annotations

import pytest

from .kit.client import CHAT, End, RawClient, RawResponse, ask, chat_body, good, good_ns, post, request_bytes
from .kit.conn import EngineConn, Fields, RawRequest
from .kit.engine import FakeEngine
from .kit.exchange import exchange
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import JSON_HEADERS, chat_answer, chat_events, chunked
from .kit.wire import Head

CONFIG = {"breaker": {"failure_threshold": 1000}}  # bad framing is sent on purpose

HOP_BY_HOP = {
    "keep-alive",
    "te",
    "trailer",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-connection",
    "upgrade",
}
RUDE: Fields = (
    ("Connection", "keep-alive, X-Drop-Me"),
    ("Connection", "x-drop-me-too"),
    ("X-Drop-Me", "1"),
    ("X-Drop-Me-Too", "1"),
    ("Keep-Alive", "timeout=5"),
    ("TE", "trailers"),
    ("Trailer", "X-Sum"),
    ("Proxy-Authorization", "Basic eDp5"),
    ("Proxy-Connection", "keep-alive"),
    ("Upgrade", "h2c"),
    ("Host", "front.example"),
    ("X-Keep", "1"),
    ("X-Keep", "2"),
)


def assert_one_framing(head: Head, body: bytes | bytearray) -> None:
    """One of the two framing headers, once, and true."""
    lengths, codings = head.all("content-length"), head.all("transfer-encoding")
    assert len(lengths) + len(codings) == 1, (lengths, codings)
    assert not lengths or int(lengths[0]) == len(body)
    assert not codings or codings[0].lower() == "chunked"


def assert_no_hops(head: Head, *named: str) -> None:
    """No per-connection field but this connection's own."""
    assert not head.names() & (HOP_BY_HOP | set(named)), head.headers
    for value in head.all("connection"):
        assert value.lower() in ("keep-alive", "close"), value


def assert_own_headers_once(response: RawResponse) -> None:
    """One server, one date, one content-type."""
    for name in ("server", "date", "content-type", "x-request-id", "x-router-path", "x-router-reason"):
        assert len(response.head.all(name)) == 1, (name, response.head.all(name))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_request_side(router: RouterProcess, a: FakeEngine, stream: bool) -> None:
    """B-06, request: hop-by-hop fields stay behind, the others arrive in order, one true framing."""
    body = chat_body(stream=stream)
    response = await ask(router.data_port, post(body, headers=RUDE))
    assert response.status == 200
    (request,) = a.requests
    assert bytes(request.body) == body
    assert_no_hops(request.head, "x-drop-me", "x-drop-me-too")
    assert_one_framing(request.head, body)
    assert request.head.all("x-keep") == ["1", "2"]
    assert len(request.head.all("host")) == 1
    assert len(request.head.all("content-type")) == 1


@pytest.mark.parametrize("named", ["content-length", "host", "content-type", "Content-Length, close", ",, ,"])
async def test_connection_names_what_is_needed(router: RouterProcess, a: FakeEngine, named: str) -> None:
    """Kin of B-06: `Connection` naming framing or routing fields cannot break the upstream request."""
    body = chat_body(stream=False)
    response = await ask(router.data_port, post(body, headers=(("connection", named),)))
    assert response.status in (200, 400)
    for request in a.requests:
        assert bytes(request.body) == body
        assert_one_framing(request.head, body)
        assert len(request.head.all("host")) == 1


async def test_response_side(router: RouterProcess, a: FakeEngine) -> None:
    """B-06, response: nothing of the upstream connection shows, and the client's stays open."""
    upstream: Fields = (
        ("Connection", "close, X-Gone"),
        ("X-Gone", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authenticate", "Basic"),
        ("Trailer", "X-Sum"),
        ("Upgrade", "h2c"),
        ("X-Kept", "1"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
    )

    async def script(conn: EngineConn, request: RawRequest) -> None:
        if b'"stream": true' in request.body:
            await conn.stream(chat_events(), headers=(("content-type", "text/event-stream"), *upstream))
        else:
            await conn.reply(chat_answer(), headers=(*JSON_HEADERS, *upstream))
        conn.fin()

    a.script = script
    async with await RawClient.connect(router.data_port) as client:
        for data, body in ((good(), b"".join(chat_events())), (good_ns(), chat_answer()), (good(), None)):
            response = await client.ask(data)
            assert (response.status, response.end) == (200, End.COMPLETE)
            assert body is None or bytes(response.body) == body
            assert_no_hops(response.head, "x-gone")
            assert "close" not in response.head.all("connection")
            assert_one_framing(response.head, response.body)
            assert_own_headers_once(response)
            assert response.head.all("set-cookie") == ["a=1", "b=2"]
            assert response.head.get("x-kept") == "1"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("length", [True, False], ids=["length", "until_close"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_close_delimited(
    router: RouterProcess, a: FakeEngine, version: str, length: bool, stream: bool
) -> None:
    """B-06: an HTTP/1.0 style answer, with and without its length."""
    body = b"".join(chat_events()) if stream else chat_answer()
    kind = b"text/event-stream" if stream else b"application/json"

    async def script(conn: EngineConn, request: RawRequest) -> None:
        rows = [b"HTTP/%s 200 OK" % version.encode(), b"Content-Type: " + kind, b"Connection: close"]
        rows += [b"Content-Length: %d" % len(body)] if length else []
        await conn.send(b"\r\n".join(rows) + b"\r\n\r\n" + body)
        conn.fin()

    async with await RawClient.connect(router.data_port) as client:
        for _ in range(2):
            a.script = script
            response = await client.ask(post(chat_body(stream=stream)))
            assert (response.status, response.end, bytes(response.body)) == (200, End.COMPLETE, body)
            assert_one_framing(response.head, body)
            assert_own_headers_once(response)


async def test_own_answers(router: RouterProcess) -> None:
    """B-06 on what the router says itself: one of each as well."""
    for data in (request_bytes("GET", "/healthz"), request_bytes("GET", "/nowhere"), post(b"{")):
        response = await ask(router.data_port, data)
        assert response.end is End.COMPLETE
        assert_one_framing(response.head, response.body)
        for name in ("server", "date"):
            assert len(response.head.all(name)) <= 1


@pytest.mark.parametrize(
    "heads",
    [
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: +5",),
        (b"Content-Length: 5,5",),
        (b"Transfer-Encoding: gzip, chunked",),
        (b"Transfer-Encoding: chunked, chunked",),
        (b"Transfer-Encoding : chunked",),
        (b"Transfer-Encoding: xchunked",),
    ],
    ids=["both", "two_lengths", "plus", "list", "gzip_chunked", "twice", "space", "unknown"],
)
async def test_ambiguous_request_framing(
    router: RouterProcess, a: FakeEngine, heads: tuple[bytes, ...]
) -> None:
    """Kin of B-06: a request framed in two ways is refused, or reaches the engine framed in one.

    What follows the body must never become a request of its own at the engine.
    """
    smuggled = b"POST /flush_cache HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    payload = b"0\r\n\r\n" + smuggled
    rows = (f"POST {CHAT} HTTP/1.1".encode(), b"Host: x", b"Content-Type: application/json", *heads)
    async with await RawClient.connect(router.data_port) as client:
        await client.request(b"\r\n".join(rows) + b"\r\n\r\n" + payload)
        response = await client.response()
        assert 400 <= response.status < 500
    assert all(request.path == CHAT for request in a.requests)
    for request in a.requests:
        assert_one_framing(request.head, request.body)


@pytest.mark.parametrize(
    "heads",
    [
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: 5", b"Content-Length: 5"),
        (b"Content-Length: -5",),
    ],
    ids=["both", "two_lengths", "same_twice", "negative"],
)
async def test_ambiguous_response_framing(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, heads: tuple[bytes, ...]
) -> None:
    """Kin of B-06: an answer framed in two ways gives 502 or one framing; never both, never a hang."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        rows = (b"HTTP/1.1 200 OK", b"Content-Type: application/json", *heads)
        await conn.send(
            b"\r\n".join(rows) + b"\r\n\r\n" + (chunked(b"12345") if len(heads[-1]) > 20 else b"12345")
        )
        conn.fin()

    a.script = b.script = script
    response = await ask(router.data_port, good_ns())
    assert response.status in (200, 502)
    assert len(response.head.all("content-length")) + len(response.head.all("transfer-encoding")) == 1


@pytest.mark.parametrize("interim", ["100 Continue", "102 Processing", "103 Early Hints"])
@pytest.mark.parametrize("count", [1, 3])
async def test_interim_responses(router: RouterProcess, a: FakeEngine, interim: str, count: int) -> None:
    """Kin of B-06: 1xx answers before the real one are not taken for it."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(f"HTTP/1.1 {interim}\r\nX-Interim: 1\r\n\r\n".encode() * count)
        await conn.reply(chat_answer())

    seen = await exchange(router, a, script, good_ns())
    assert (seen.response.status, bytes(seen.response.body)) == (200, chat_answer())
    assert seen.response.head.all("x-interim") == []


async def test_answer_without_a_body(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-06: 204 ends at its head, and the connections on both sides stay in step."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(b"HTTP/1.1 204 No Content\r\nX-Kept: 1\r\n\r\n")

    async with await RawClient.connect(router.data_port) as client:
        a.script = script
        response = await client.ask(good_ns())
        assert (response.status, response.end, response.head.get("x-kept")) == (204, End.COMPLETE, "1")
        assert response.head.all("transfer-encoding") == []
        a.use_good_script()
        assert bytes((await client.ask(good_ns())).body) == chat_answer()


@pytest.mark.parametrize(
    "trailer", [b"X-Sum: 1", b"X-Sum: 1\r\nServer-Timing: x", b"content-type: text/html"]
)
async def test_trailers(router: RouterProcess, a: FakeEngine, trailer: bytes) -> None:
    """Kin of B-06: upstream trailers do not get into the body, the head or the next answer."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.send(chunked(*chat_events(), end=False) + b"0\r\n" + trailer + b"\r\n\r\n")

    async with await RawClient.connect(router.data_port) as client:
        for _ in range(2):
            a.script = script
            response = await client.ask(good())
            assert bytes(response.body) == b"".join(chat_events())
            assert response.end is End.COMPLETE
            assert len(response.head.all("content-type")) == 1


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
