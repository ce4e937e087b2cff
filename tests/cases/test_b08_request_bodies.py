"""B-08: large and chunked request bodies.

Right value: the engine's de-framed body is byte-identical, with exactly one framing header; other streams
and the router's health do not stall meanwhile. Over the limit: 413, OpenAI-shaped, naming the limit, nothing
sent to an engine, memory flat, and as soon as the limit is passed. The default limit admits 32 MiB.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import sys
import time
from pathlib import Path

import pytest
import pytest_asyncio

from .conftest import RouterFactory
from .kit import limits, uploader
from .kit.client import (
    CHAT,
    End,
    RawClient,
    ask,
    assert_openai_error,
    chat_body,
    post,
    post_chunked,
    request_bytes,
)
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import MODEL, chat_events, content, split_every, split_randomly
from .kit.waiting import until
from .kit.wire import Framing

SMALL_LIMIT = 256 * 1024
CHUNKED_HEAD = request_bytes(
    "POST", CHAT, (("content-type", "application/json"), ("transfer-encoding", "chunked"))
)


def image_body(mib: float, *, stream: bool = True) -> bytes:
    """A chat request with a base64 image part of about so many MiB."""
    data = base64.b64encode(random.Random(8).randbytes(int(mib * limits.MIB * 3 / 4))).decode()
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}
    return json.dumps(
        {"model": MODEL, "messages": [{"role": "user", "content": [part]}], "stream": stream}
    ).encode()


def with_extensions(body: bytes) -> bytes:
    """Chunked with chunk extensions and a trailer."""
    pieces = split_every(body, 8192)
    framed = b"".join(b'%X;name="va;lue";x\r\n%s\r\n' % (len(piece), piece) for piece in pieces)
    return CHUNKED_HEAD + framed + b"0;last\r\nX-Checksum: abc\r\n\r\n"


def framed(body: bytes, how: str) -> bytes:
    """The whole request in one of the framings of the case."""
    if how == "length":
        return post(body)
    return post_chunked(split_every(body, 8192)) if how == "chunked" else with_extensions(body)


FRAMINGS = ["length", "chunked", "extensions"]


def assert_arrived(request: RawRequest, body: bytes) -> None:
    """Whole, identical, framed once."""
    assert request.whole
    assert request.body == body
    framing = request.head.all("content-length") + request.head.all("transfer-encoding")
    assert len(framing) == 1, request.head.headers
    assert not request.head.all("x-checksum")
    if request.reader.framing is Framing.LENGTH:
        assert framing == [str(len(body))]


@pytest.mark.parametrize("how", FRAMINGS)
async def test_image(router: RouterProcess, a: FakeEngine, how: str) -> None:
    """B-08 (a)-(c): a 25 MiB image."""
    body = image_body(25)
    response = await ask(router.data_port, framed(body, how), within=30)
    assert (response.status, response.end) == (200, End.COMPLETE)
    assert_arrived(a.requests[0], body)


async def test_default_limit_admits_32_mib(router: RouterProcess, a: FakeEngine) -> None:
    """B-08: the default limit is not one for text."""
    body = image_body(31.9).ljust(32 * limits.MIB)
    assert (await ask(router.data_port, post(body), within=30)).status == 200
    assert_arrived(a.requests[0], body)


@pytest.mark.parametrize(
    "pieces",
    [
        lambda body: split_every(body, 1),
        lambda body: split_randomly(body, 5, most=3000),
        lambda body: [body],
    ],
    ids=["bytes", "random", "one"],
)
@pytest.mark.parametrize(
    "segment", [1, 1000, 1 << 20], ids=["byte_segments", "small_segments", "one_segment"]
)
async def test_chunk_sizes(router: RouterProcess, a: FakeEngine, pieces: object, segment: int) -> None:
    """B-08: chunked uploads cut in any way, on the wire and in chunks."""
    assert callable(pieces)
    body = chat_body(stream=False, pad="p" * 400)
    async with await RawClient.connect(router.data_port) as client:
        await client.send_pieces(split_every(post_chunked(pieces(body)), segment))
        assert (await client.response()).status == 200
    assert_arrived(a.requests[0], body)


@pytest.mark.parametrize("length", ["0", "absent"])
async def test_empty_body(router: RouterProcess, a: FakeEngine, length: str) -> None:
    """B-08 kin: no body at all is a client's mistake, not a hang."""
    headers = (("content-type", "application/json"), *((("content-length", "0"),) if length == "0" else ()))
    response = await ask(router.data_port, request_bytes("POST", CHAT, headers), within=3)
    assert 200 <= response.status < 500


@pytest.mark.parametrize("how", ["length", "chunked"])
async def test_expect_continue(router: RouterProcess, a: FakeEngine, how: str) -> None:
    """B-08 kin: a client that waits for 100-continue gets it (curl does so above 1 MiB)."""
    body = image_body(2)
    data = (
        post(body, headers=(("expect", "100-continue"),))
        if how == "length"
        else post_chunked(split_every(body, 65536), headers=(("expect", "100-continue"),))
    )
    head, _, rest = data.partition(b"\r\n\r\n")
    async with await RawClient.connect(router.data_port) as client:
        await client.request(head + b"\r\n\r\n")
        await client.wait(lambda: client.bytes_received > 0, 2.0, "100 Continue")
        await client.send(rest)
        response = await client.response()
    assert response.status == 200
    assert [interim.line.split(" ")[1] for interim in response.interim] == ["100"]
    assert_arrived(a.requests[0], body)


@pytest.mark.parametrize(
    "bad", [b"zz\r\n", b"-5\r\nhello\r\n", b"5\r\nhelloXX", b"0x5\r\nhello\r\n", b"ffffffffffffffffff\r\n"]
)
async def test_malformed_chunks(router: RouterProcess, a: FakeEngine, bad: bytes) -> None:
    """B-08 kin: broken chunk framing is 400 or a close, and no engine gets a request that looks whole."""
    async with await RawClient.connect(router.data_port) as client:
        await client.request(CHUNKED_HEAD + b'5\r\n{"a":\r\n' + bad)
        await until(lambda: client.responses or client.peer_is_gone(), 5.0, "an answer or a close")
        assert not client.responses or client.responses[0].status == 400
    assert not any(request.whole for request in a.requests)


async def watch_health(router: RouterProcess, slowest: list[float]) -> None:
    """GET /health without pause between answers; keeps the slowest."""
    while True:
        started = time.monotonic()
        assert (await router.get("/health")).status == 200
        slowest[0] = max(slowest[0], time.monotonic() - started)
        await asyncio.sleep(0.02)


async def upload_all(port: int, files: list[Path], count: int) -> list[str]:
    """`count` uploads at once, taking the files in turn; returns the status lines."""
    names = [str(files[i % len(files)]) for i in range(count)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, uploader.__file__, str(port), *names, stdout=asyncio.subprocess.PIPE
    )
    stdout, _ = await asyncio.wait_for(process.communicate(), 120)
    return list(json.loads(stdout))


@pytest.mark.parametrize(
    ("uploads", "mib", "streams"),
    [(6, 4.0, 8), pytest.param(20, 25.0, 32, marks=pytest.mark.slow)],
    ids=["some", "full"],
)
async def test_uploads_beside_streams(
    router: RouterProcess, a: FakeEngine, tmp_path: Path, uploads: int, mib: float, streams: int
) -> None:
    """B-08 (d): many uploads at once, while small streams run at 20 ms per event."""
    over = asyncio.Event()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        if len(request.body) > limits.MIB:
            await conn.stream(chat_events())
            return
        await conn.head()
        while not over.is_set():
            await conn.chunk(content("tick"))
            await conn.pause(0.02)
        await conn.end()

    a.script = script
    body = image_body(mib)
    files = [tmp_path / how for how in FRAMINGS]
    for file in files:
        file.write_bytes(framed(body, file.name))
    clients = [await RawClient.connect(router.data_port) for _ in range(streams)]
    for number, client in enumerate(clients):
        await client.request(post(chat_body(stream=True, user=str(number))))
    await asyncio.gather(*(client.body(1) for client in clients))
    slowest = [0.0]
    watcher = asyncio.create_task(watch_health(router, slowest))
    lines = await upload_all(router.data_port, files, uploads)
    over.set()
    responses = await asyncio.gather(*(client.response() for client in clients))
    watcher.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watcher
    for client in clients:
        client.fin()
    assert lines == ["HTTP/1.1 200 OK"] * uploads
    big = [request for request in a.requests if len(request.body) > limits.MIB]
    assert len(big) == uploads
    for request in big:
        assert_arrived(request, body)
    marks = {json.loads(r.body)["user"]: r.marks for r in a.requests if len(r.body) < limits.MIB}
    for number, response in enumerate(responses):
        assert max(response.delays(marks[str(number)])) <= limits.STALL
    assert slowest[0] <= limits.STALL


@pytest_asyncio.fixture(loop_scope="session")
async def small(router_factory: RouterFactory) -> RouterProcess:
    """A router with a small body limit."""
    return await router_factory({"server": {"max_body": SMALL_LIMIT}})


async def test_limits(small: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-08: exactly at the limit passes; one byte above is 413 in both framings and reaches nobody."""
    body = chat_body(stream=False).ljust(SMALL_LIMIT)
    for how in FRAMINGS:
        assert (await ask(small.data_port, framed(body, how))).status == 200
    arrived = len(a.requests)
    for how in FRAMINGS:
        error = assert_openai_error(await ask(small.data_port, framed(body + b" ", how)), 413)
        assert error["type"] == "invalid_request_error"
        assert any(text in error["message"] for text in (str(SMALL_LIMIT), "256KiB", "256 KiB")), error
    assert len(a.requests) == arrived == 3
    assert b.requests == []
    metrics = await small.metrics()
    assert metrics.sum("rejected_total", reason="size") == 3
    await assert_quiet(small, a, b)


async def test_declared_length_is_refused_at_the_head(small: RouterProcess, a: FakeEngine) -> None:
    """B-08: a length above the limit is refused before any of the body is sent."""
    for length in (SMALL_LIMIT + 1, 5 * 1024**3, 2**63, 10**30):
        headers = (("content-type", "application/json"), ("content-length", str(length)))
        response = await ask(small.data_port, request_bytes("POST", CHAT, headers), within=3)
        assert response.status == 413 if length < 2**63 else 400 <= response.status < 500
    assert a.requests == []


async def test_endless_chunked_body(small: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-08: 5 GiB in chunks is refused once the limit is passed; memory stays flat."""
    block = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
    before = small.rss_bytes()
    client = await RawClient.connect(small.data_port)
    with contextlib.suppress(ConnectionError):
        await client.request(CHUNKED_HEAD)
        while not client.responses and client.bytes_sent < 5 * 1024**3:
            await client.send(block)
            await asyncio.sleep(0)
    response = await client.response()
    client.fin()
    assert_openai_error(response, 413)
    assert client.bytes_sent < SMALL_LIMIT + 16 * limits.MIB  # what the kernel buffers on the way
    assert small.rss_bytes() - before < 8 * limits.MIB
    assert a.requests == b.requests == []
    await assert_quiet(small, a, b)


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
