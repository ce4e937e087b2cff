"""What the router refuses by itself: bodies, the queue, time, memory, no engine left."""

from __future__ import annotations

import asyncio
import time

import pytest

from router.proxy.body import MIN_RATE
from tests.cases.kit.client import (
    CHAT,
    End,
    RawClient,
    RawResponse,
    assert_openai_error,
    good,
    good_ns,
    post,
    post_chunked,
    request_bytes,
)
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.metrics import Metrics
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.holding import Holding
from tests.support.running import Running, gather_all

KIB = 1024
MIB = 1024 * KIB

NOT_OBJECTS = {
    "empty": b"",
    "list": b'[{"model": "x"}]',
    "string": b'"text"',
    "null": b"null",
    "number": b"17",
    "cut": b'{"model": "x", "messages": [',
    "two_objects": b"{}{}",
    "single_quotes": b"{'model': 'x'}",
    "trailing_comma": b'{"model": "x",}',
    "form": b"model=x&stream=true",
    "deep": b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "zero_bytes": b"\x00" * 100,
    "byte_order_mark": b"\xef\xbb\xbf{}",
}


def retry_after(response: RawResponse) -> int:
    """The value of Retry-After, which must be whole seconds within 1 to 30."""
    value = response.head.get("retry-after") or ""
    assert value.isdigit(), value
    assert 1 <= int(value) <= 30
    return int(value)


def rejected(metrics: Metrics, reason: str) -> float:
    """Rejections for this reason; all rejections must be for it, and each a request without a path."""
    count = metrics.sum("rejected_total", reason=reason)
    assert count == metrics.sum("rejected_total")
    assert count == metrics.sum("requests_total", outcome="rejected", path="none")
    return count


async def test_bodies_that_are_no_json_object(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    async with await RawClient.connect(router.data) as client:
        for name, body in NOT_OBJECTS.items():
            for data in (post(body), post_chunked([body])):
                response = await client.ask(data)
                error = assert_openai_error(response, 400)
                assert error["code"] == "invalid_json", name
                assert "model" not in error["message"], "no piece of a prompt in an error"
        assert (await client.ask(good())).status == 200, "the connection is still good"
    assert len(a.requests) == 1
    assert not b.requests
    assert rejected(await router.metrics(), "json") == 2 * len(NOT_OBJECTS)


async def test_bodies_that_are_too_large(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"max_body": "64KiB"})
    fits = b'{"p": "' + b"x" * (64 * KIB - 9) + b'"}'
    assert len(fits) == 64 * KIB
    assert (await router.ask(post(fits))).status == 200
    assert (await router.ask(post_chunked([fits]))).status == 200
    for data in (post(fits + b" "), post_chunked([fits, b" "]), post_chunked([fits] * 40)):
        error = assert_openai_error(await router.ask(data), 413)
        assert error["code"] == "request_too_large"
        assert "65536" in error["message"]
    async with await RawClient.connect(router.data) as client:
        await client.request(request_bytes("POST", CHAT, (("content-length", str(1 << 40)),)))
        assert_openai_error(await client.response(within=1.0), 413)
    assert len(a.requests) == 2
    assert rejected(await router.metrics(), "size") == 4


async def test_a_full_queue(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"max_active": 2, "queue_size": 3})
    held = Holding(a)
    asks = [asyncio.create_task(router.ask(good_ns())) for _ in range(5)]
    await until(lambda: (held.held, router.ledger.queued) == (2, 3), 2.0)
    for _ in range(3):
        response = await router.ask(good())
        assert assert_openai_error(response, 429)["code"] == "queue_full"
        retry_after(response)
        assert response.path is None, "no engine was asked"
    for _ in range(5):
        await until(lambda: held.held, 2.0)
        held.release(1)
    assert {response.status for response in await asyncio.gather(*asks)} == {200}
    assert rejected(await router.metrics(), "queue_full") == 3
    assert len(a.requests) == 5


async def test_no_queue_at_all(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"max_active": 1, "queue_size": 0})
    held = Holding(a)
    ask = asyncio.create_task(router.ask(good()))
    await until(lambda: held.held == 1, 2.0)
    assert_openai_error(await router.ask(good()), 429)
    held.release()
    assert (await ask).status == 200


async def test_waiting_too_long(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"max_active": 1, "queue_size": 10, "queue_timeout": "300ms"})
    held = Holding(a)
    ask = asyncio.create_task(router.ask(good()))
    await until(lambda: held.held == 1, 2.0)
    began = time.monotonic()
    responses = await gather_all(*(router.ask(good()) for _ in range(4)))
    assert 0.25 <= time.monotonic() - began < 1.5
    for response in responses:
        assert assert_openai_error(response, 503)["code"] == "queue_timeout"
        retry_after(response)
    held.release()
    assert (await ask).status == 200
    metrics = await router.metrics()
    assert rejected(metrics, "queue_timeout") == 4
    assert metrics.sum("queue_wait_seconds_count") == 5
    assert len(a.requests) == 1, "who gave up is not sent to the engine"


async def test_first_come_first_served(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, server={"max_active": 1, "queue_size": 10})
    held = Holding(a)
    asks = []
    for number in range(6):
        asks.append(asyncio.create_task(router.ask(good((("x-request-id", f"n{number}"),)))))
        await until(lambda want=number + 1: router.ledger.n == want, 2.0)  # type: ignore[misc]
    for _ in range(6):
        await until(lambda: held.held, 2.0)
        held.release(1)
    await asyncio.gather(*asks)
    assert [request.head.get("x-request-id") for request in a.requests] == [f"n{n}" for n in range(6)]


async def test_no_engine_left(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    a.down(reset=True)
    b.down(reset=True)
    codes = []
    for data in (good(), good_ns(), good(), good_ns(), good(), good(), good(), good()):
        began = time.monotonic()
        response = await router.ask(data)
        assert time.monotonic() - began < 0.5, "at once"
        codes.append(assert_openai_error(response, 503)["code"])
        retry_after(response)
    assert set(codes) <= {"engine_unreachable", "no_engine"}
    await until(lambda: not router.router.services.pair.serving(), 2.0)
    response = await router.ask(good())
    assert assert_openai_error(response, 503)["code"] == "no_engine"
    assert (await router.metrics()).sum("rejected_total", reason="no_engine") >= 1


async def test_a_body_that_stalls(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, timeouts={"client_body": "400ms"})
    async with await RawClient.connect(router.data) as client:
        await client.request(good()[:-5])
        error = assert_openai_error(await client.response(within=2.0), 408)
        assert error["code"] == "request_timeout"
    piece = b" " * MIN_RATE
    data = post(piece * 6 + b"{}")
    async with await RawClient.connect(router.data) as client:
        began = time.monotonic()
        await client.request(data[: -len(piece) * 6])
        for at in range(6, 0, -1):  # each piece in time, all of them later than the limit
            await asyncio.sleep(0.1)
            await client.send(data[len(data) - at * len(piece) :][: len(piece)])
        assert (await client.response(within=2.0)).status == 200
        assert time.monotonic() - began > 0.55
    assert len(a.requests) == 1


async def test_memory_for_bodies(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """A body is held until nothing can be repeated any more; who finds no room waits, then is told to."""
    limits = {"max_body": "1MiB", "body_memory": "1MiB", "queue_timeout": "300ms"}
    router = await start(a, b, server=limits)
    held = Holding(a)
    large = b'{"p": "' + b"x" * (700 * KIB) + b'"}'
    first = asyncio.create_task(router.ask(post(large)))
    await until(lambda: held.held == 1, 2.0)
    assert router.router.services.budget.held == len(large)
    for data in (post(large), post_chunked([large])):
        response = await router.ask(data)
        assert assert_openai_error(response, 429)["code"] == "body_memory"
        retry_after(response)
    second = asyncio.create_task(router.ask(post(large)))
    await asyncio.sleep(0.05)
    held.release()
    await until(lambda: held.held == 1, 2.0, "the second fits once the first is answered")
    held.release()
    assert [(await ask).status for ask in (first, second)] == [200, 200]
    assert rejected(await router.metrics(), "body_memory") == 2
    assert router.router.services.budget.held == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
async def test_a_query_and_a_body_of_nothing_but_space(router: Running, a: FakeEngine, path: str) -> None:
    response = await router.ask(post(b"  {} \n", path + "?a=b"))
    assert response.status == 200
    assert response.end is End.COMPLETE
    assert bytes(a.requests[0].body) == b"  {} \n"
    assert a.requests[0].target == path + "?a=b"


async def test_a_slow_upload_is_no_wait_in_the_queue(router: Running) -> None:
    data = good_ns()
    async with await RawClient.connect(router.data) as client:
        await client.request(data[:-10])
        await asyncio.sleep(0.6)
        await client.send(data[-10:])
        assert (await client.response()).status == 200
    await router.quiet()
    metrics = await router.metrics()
    assert metrics.sum("queue_wait_seconds_count") == 1
    assert metrics.sum("queue_wait_seconds_sum") < 0.3
