"""B-04: bytes arrive late or in lumps.

Right value: the router may hold the status line and headers until the engine's first event (it must, to
tell a first-event error), never longer; each event arrives at once; an event stream is never compressed and
carries `cache-control: no-cache` and `x-accel-buffering: no`, so that a proxy in front does not buffer.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time

import openai
import pytest

from .kit import limits
from .kit.client import End, RawClient, RawResponse, good
from .kit.conn import EngineConn, Fields, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.exchange import Exchange, exchange, lockstep
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import DONE, SSE_HEADERS, chat_events, content

ALL_CODINGS = (("accept-encoding", "gzip, br, zstd"),)


def slow_start(first: float, gap: float, count: int, headers: Fields = SSE_HEADERS) -> Script:
    """Headers at once, the first event after `first` seconds, then small events `gap` apart."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head(headers=headers)
        await conn.pause(first)
        for number in range(count):
            await conn.chunk(f'data: {{"n":{number:>48}}}\n\n'.encode())
            await conn.pause(gap)
        await conn.chunk(DONE)
        await conn.end()

    return script


def assert_stream_head(response: RawResponse) -> None:
    """What every relayed event stream carries."""
    assert response.status == 200
    assert response.head.get("content-encoding") is None
    assert (response.head.get("content-type") or "").startswith("text/event-stream")
    assert "no-cache" in (response.head.get("cache-control") or "")
    assert response.head.get("x-accel-buffering") == "no"


def assert_prompt(seen: Exchange) -> None:
    """Events at once, the head with the first of them."""
    assert max(seen.delays()) <= limits.EVENT_DELAY
    assert statistics.median(seen.delays()) <= limits.EVENT_DELAY_MEDIAN
    assert seen.response.head_at - seen.request.marks[0].time <= limits.EVENT_DELAY


@pytest.mark.parametrize("accept", [(), ALL_CODINGS], ids=["plain", "accepts_codings"])
@pytest.mark.parametrize(
    ("first", "count"), [(0.5, 50), pytest.param(3.0, 200, marks=pytest.mark.slow)], ids=["short", "full"]
)
async def test_small_events(
    router: RouterProcess, a: FakeEngine, accept: Fields, first: float, count: int
) -> None:
    """B-04: one 60-byte event each 20 ms, after headers that came long before."""
    seen = await exchange(router, a, slow_start(first, 0.02, count), good(accept))
    assert_stream_head(seen.response)
    assert_prompt(seen)


@pytest.mark.parametrize(
    ("first", "count"), [(0.3, 40), pytest.param(3.0, 200, marks=pytest.mark.slow)], ids=["short", "full"]
)
async def test_crowd(router: RouterProcess, a: FakeEngine, first: float, count: int) -> None:
    """B-04 with 64 streams together: the 99th percentile of all events' delays."""
    a.script = slow_start(first, 0.02, count)
    clients = [await RawClient.connect(router.data_port) for _ in range(64)]
    await asyncio.gather(*(client.request(good(user=str(n))) for n, client in enumerate(clients)))
    responses = await asyncio.gather(*(client.response(within=30) for client in clients))
    for client in clients:
        client.fin()
    assert {response.end for response in responses} == {End.COMPLETE}
    marks = {int(json.loads(request.body)["user"]): request.marks for request in a.requests}
    delays = sorted(delay for n, response in enumerate(responses) for delay in response.delays(marks[n]))
    assert len(a.requests) == 64
    assert delays[int(len(delays) * 0.99)] <= limits.EVENT_DELAY_P99_CROWD


@pytest.mark.parametrize(
    "own",
    [
        (("cache-control", "no-cache"), ("x-accel-buffering", "no")),
        (("Cache-Control", "no-cache, no-transform"),),
        (("X-Accel-Buffering", "no"),),
    ],
    ids=["both", "cache_control", "accel"],
)
async def test_headers_the_engine_sent_already(router: RouterProcess, a: FakeEngine, own: Fields) -> None:
    """B-04: kept or added, but never doubled."""
    seen = await exchange(router, a, slow_start(0.0, 0.0, 2, (*SSE_HEADERS, *own)))
    assert_stream_head(seen.response)


@pytest.mark.parametrize("size", [1, 2, 17, 1460, 4096, 16_384])
async def test_event_sizes(router: RouterProcess, a: FakeEngine, size: int) -> None:
    """Kin of B-04: no size of write is held back for more."""

    seen = await lockstep(router, a, [[content("first")], *([b"z" * size] for _ in range(5))])
    assert_prompt(seen)


async def test_end_is_not_late(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-04: the end of the body follows the last chunk at once."""
    ended: list[float] = []

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(content("x"))
        await conn.pause(0.2)
        ended.append(time.monotonic())
        await conn.end()

    seen = await exchange(router, a, script)
    assert seen.response.ended_at is not None
    assert seen.response.ended_at - ended[0] <= limits.EVENT_DELAY


async def time_to_first_token(client: openai.AsyncOpenAI) -> float:
    """Seconds from the call to the first chunk with text."""
    started = time.monotonic()
    stream = await client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    first = 0.0
    async for chunk in stream:
        if not first and chunk.choices and chunk.choices[0].delta.content:
            first = time.monotonic() - started
    return first


async def test_sdk_time_to_first_token(router: RouterProcess, a: FakeEngine) -> None:
    """B-04 seen by openai-python: the router adds little to the time to the first token (medians of 9)."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(0.05)
        await conn.stream(chat_events())

    a.script = script
    medians = []
    for port in (a.port, router.data_port):
        url = f"http://127.0.0.1:{port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="sk-test", max_retries=0) as client:
            medians.append(statistics.median([await time_to_first_token(client) for _ in range(10)][1:]))
    assert medians[1] - medians[0] <= limits.SDK_TTFT_ADDED


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
