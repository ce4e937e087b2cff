"""B-13: a broken upstream stream ends as if complete.

Right value: everything the engine sent arrives; then the response ends without its terminating chunk (or
short of its length), on a stream after an event with an OpenAI-shaped error. No `[DONE]`, nothing of the
other engine. The SDKs raise. One failure is counted for the engine.
"""

from __future__ import annotations

import json
import time

import pytest

from .kit import limits
from .kit.client import End, RawResponse, ask, good, good_ns
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import FOREVER, breaking
from .kit.sdk import SDKS, Sdk, sdk_chat
from .kit.sse import DONE, JSON_HEADERS, SSE_HEADERS, chat_answer, chat_events, content

CONFIG = {"breaker": {"failure_threshold": 1000}, "timeouts": {"idle": "700ms"}}

THREE = chat_events(("The", " capital"), tail=False)
SENT = b"".join(THREE)


async def short_of_length(conn: EngineConn, request: RawRequest) -> None:
    """A stream with a content-length that is never reached."""
    await conn.head(headers=(*SSE_HEADERS, ("content-length", str(len(SENT) + 40))), chunked=False)
    await conn.body(SENT)
    await conn.pause(0.05)
    conn.fin()


async def malformed_chunk(conn: EngineConn, request: RawRequest) -> None:
    """Nonsense where a chunk size is due."""
    await conn.head()
    for item in THREE:
        await conn.chunk(item)
    await conn.send(b"zz\r\ndata: {}\n\n\r\n0\r\n\r\n")
    await conn.pause(FOREVER)


async def malformed_in_the_same_segment(conn: EngineConn, request: RawRequest) -> None:
    """The nonsense arrives together with the last good event."""
    await conn.head()
    for item in THREE[:-1]:
        await conn.chunk(item)
    await conn.pause(0.05)
    last = THREE[-1]
    await conn.send(b"%x\r\n%s\r\nzz\r\n" % (len(last), last))
    await conn.pause(FOREVER)


async def silence(conn: EngineConn, request: RawRequest) -> None:
    """Nothing more, and the connection stays open."""
    await conn.head()
    for item in THREE:
        await conn.chunk(item)
    await conn.pause(FOREVER)


async def cut_inside_an_event(conn: EngineConn, request: RawRequest) -> None:
    """The last event breaks off in the middle of a chunk."""
    await conn.head()
    for item in THREE:
        await conn.chunk(item)
    await conn.send(b'80\r\ndata: {"id":"d982","choi')
    await conn.pause(0.05)
    conn.fin()


async def cut_between_event_lines(conn: EngineConn, request: RawRequest) -> None:
    """A whole data line, but no blank line behind it."""
    await conn.head()
    for item in THREE:
        await conn.chunk(item)
    await conn.chunk(content("cut").rstrip(b"\n"))
    await conn.pause(0.05)
    conn.rst()


async def until_eof_without_done(conn: EngineConn, request: RawRequest) -> None:
    """A stream whose end is the end of the connection, and it comes without `[DONE]`."""
    await conn.head(chunked=False)
    await conn.body(SENT)
    await conn.pause(0.05)
    conn.fin()


ENDINGS: dict[str, Script] = {
    "rst": breaking(THREE),
    "fin": breaking(THREE, end="fin"),
    "short_of_length": short_of_length,
    "malformed_chunk": malformed_chunk,
    "malformed_in_the_same_segment": malformed_in_the_same_segment,
    "silence": silence,
    "cut_inside_an_event": cut_inside_an_event,
    "cut_between_event_lines": cut_between_event_lines,
    "until_eof_without_done": until_eof_without_done,
}


def assert_visibly_broken(response: RawResponse) -> None:
    """All that was sent, then an error event or nothing, then an end that is none."""
    assert response.status == 200
    assert response.end in (End.EOF, End.RST), response.end
    body = bytes(response.body)
    assert body.startswith(SENT)
    assert DONE.strip() not in body
    last = body.rstrip().rsplit(b"\n\n", 1)[-1]
    assert last.startswith(b"data: "), body
    error = json.loads(last[6:])["error"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("script", ENDINGS.values(), ids=ENDINGS)
async def test_stream(router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script) -> None:
    """B-13 (a) to (e) and kin."""
    a.script = script
    before = await router.metrics()
    async with router.scraper() as scraper:
        response = await ask(router.data_port, good())
        assert_visibly_broken(response)
        assert len(a.requests) == 1
        assert b.requests == []
        await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
        metrics = await assert_quiet(router, a, b, scraper=scraper)
    assert metrics.sum("failures_total", path="speculative") == 1 + before.sum("failures_total")
    assert metrics.sum("requests_total", outcome="failed", path="speculative") == 1 + before.sum(
        "requests_total", outcome="failed"
    )


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("script", ENDINGS.values(), ids=ENDINGS)
async def test_stream_sdk(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, script: Script, sdk: Sdk
) -> None:
    """B-13: an SDK raises after the text that came."""
    a.script = script
    answer = await sdk_chat(sdk, router.data_port, stream=True)
    assert answer.error is not None
    assert answer.text.startswith("The capital")
    assert answer.finish is None


def half(framing: str) -> Script:
    """Half of a JSON answer, then the end."""
    body = chat_answer()
    part = body[: len(body) // 2]

    async def script(conn: EngineConn, request: RawRequest) -> None:
        if framing == "length":
            await conn.head(headers=(*JSON_HEADERS, ("content-length", str(len(body)))), chunked=False)
            await conn.body(part)
        else:
            await conn.head(headers=JSON_HEADERS)
            await conn.chunk(part)
        await conn.pause(0.05)
        conn.fin()

    return script


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_half_a_body(router: RouterProcess, a: FakeEngine, b: FakeEngine, framing: str) -> None:
    """B-13: GOOD-NS with half a body: visibly short, or an error in its place; never a whole answer."""
    a.script = half(framing)
    response = await ask(router.data_port, good_ns())
    assert response.end in (End.EOF, End.RST)
    assert b.requests == []
    await assert_quiet(router, a, b)


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_half_a_body_sdk(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, framing: str, sdk: Sdk
) -> None:
    """B-13: an SDK raises on half a body."""
    a.script = half(framing)
    assert (await sdk_chat(sdk, router.data_port, stream=False)).error is not None


@pytest.mark.parametrize("tail", [b"", b": ping\n\n"], ids=["only", "and_a_comment"])
async def test_broken_after_done(router: RouterProcess, a: FakeEngine, b: FakeEngine, tail: bytes) -> None:
    """Kin of B-13: cut after `[DONE]` but before the last chunk; passed on as the cut that it is."""
    a.script = breaking([*chat_events(), *([tail] if tail else [])], end="fin")
    response = await ask(router.data_port, good())
    assert response.body.startswith(b"".join(chat_events()))
    await assert_quiet(router, a, b)


async def test_one_of_many(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-13: a keep-alive client whose earlier answers were fine."""
    a.script = breaking(THREE)
    started = time.monotonic()
    for _ in range(10):
        assert_visibly_broken(await ask(router.data_port, good()))
    assert time.monotonic() - started < 10
    await assert_quiet(router, a, b)
