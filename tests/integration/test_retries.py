"""Which failures are tried once more, where, and what the client gets when that fails too."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from router.core.words import Path
from tests.cases.kit.client import End, RawResponse, assert_openai_error, good, good_ns, post_chunked
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine, Script
from tests.cases.kit.sse import DONE, SSE_HEADERS, chat_events, error_body, error_event
from tests.cases.kit.waiting import until
from tests.integration.conftest import RouterFactory
from tests.support.running import Running

OVERLOADED = error_body(503, "The request queue is full.", "503")


def saying(status: str, body: bytes = OVERLOADED) -> Script:
    """Answers with this status and body."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(body, status)

    return script


async def full_stream(conn: EngineConn, request: RawRequest) -> None:
    """How SGLang refuses a stream when its queue is full."""
    await conn.stream([error_event(503), DONE])


async def resetting(conn: EngineConn, request: RawRequest) -> None:
    """No answer at all."""
    conn.rst()


async def half_a_head(conn: EngineConn, request: RawRequest) -> None:
    """Dies inside its first line."""
    await conn.send(b"HTTP/1.1 20")
    conn.fin()


async def head_only(conn: EngineConn, request: RawRequest) -> None:
    """Dies between its head and its first event."""
    await conn.head(headers=SSE_HEADERS)
    conn.fin()


async def half_an_event(conn: EngineConn, request: RawRequest) -> None:
    """Dies inside its first event, of which the client has seen nothing."""
    await conn.head(headers=SSE_HEADERS)
    await conn.chunk(b'data: {"id": "x", "cho')
    conn.fin()


RETRIED: dict[str, tuple[Script, Callable[[], bytes], str]] = {
    "stream_503": (full_stream, good, "engine_overloaded"),
    "503": (saying("503 Service Unavailable"), good_ns, "engine_overloaded"),
    "503_to_a_stream": (saying("503 Service Unavailable"), good, "engine_overloaded"),
    "429": (saying("429 Too Many Requests"), good_ns, "engine_overloaded"),
    "500": (saying("500 Internal Server Error"), good_ns, "engine_error"),
    "reset": (resetting, good, "engine_reset"),
    "half_a_head": (half_a_head, good, "engine_reset"),
    "head_only": (head_only, good, "engine_reset"),
}


def assert_good(response: RawResponse, path: Path, reason: str) -> None:
    """A whole right answer from that path."""
    assert (response.status, response.end) == (200, End.COMPLETE), bytes(response.body)
    assert b"The capital" in response.body.replace(b'content":"The"', b"The capital")
    assert (response.path, response.head.get("x-router-reason")) == (path.value, reason)


@pytest.mark.parametrize("name", RETRIED)
async def test_tried_on_the_other_path(router: Running, a: FakeEngine, b: FakeEngine, name: str) -> None:
    script, request, kind = RETRIED[name]
    a.script = script
    sent = request()
    assert_good(await router.ask(sent), Path.BASELINE, "retry")
    assert (len(a.requests), len(b.requests)) == (1, 1)
    assert a.requests[0].body == b.requests[0].body
    assert a.requests[0].head.get("x-request-id") == b.requests[0].head.get("x-request-id")
    metrics = await router.metrics()
    assert metrics.sum("retries_total", **{"from": "speculative", "to": "baseline"}, reason=kind) == 1
    assert metrics.sum("retries_total") == 1
    assert metrics.sum("decisions_total", path="baseline", reason="retry") == 1
    assert metrics.sum("requests_total") == metrics.sum("requests_total", path="baseline", outcome="ok") == 1
    assert metrics.sum("failures_total") == 0


async def test_back_pressure_does_not_move_the_breaker(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    for script, request in ((full_stream, good), (saying("503 Service Unavailable"), good_ns)):
        a.script = script
        for _ in range(8):
            assert (await router.ask(request())).status == 200
    metrics = await router.metrics()
    assert metrics.sum("breaker_state") == 0
    assert metrics.sum("decisions_total", path="speculative", reason="policy") == 16
    assert metrics.sum("retries_total", reason="engine_overloaded") == 16


async def test_a_clients_mistake_is_not_tried_again(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    for status in ("400 Bad Request", "401 Unauthorized", "404 Not Found", "422 Unprocessable Content"):
        body = error_body(int(status[:3]), "no good")
        a.script = saying(status, body)
        for request in (good(), good_ns()):
            response = await router.ask(request)
            assert (response.status, bytes(response.body)) == (int(status[:3]), body)
            assert response.head.get("x-router-reason") == "policy"
    assert not b.requests
    metrics = await router.metrics()
    assert metrics.sum("breaker_state") == metrics.sum("retries_total") == 0
    assert metrics.sum("requests_total", outcome="ok") == 8


async def test_a_400_in_the_first_event_is_the_clients(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    async def refusing(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream([error_event(400, "too long"), DONE])

    a.script = refusing
    response = await router.ask(good())
    assert (response.status, bytes(response.body)) == (200, error_event(400, "too long") + DONE)
    assert not b.requests


async def test_both_overloaded_the_engines_own_answer_comes_through(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    theirs = error_body(503, "no room at all", "503")
    a.script, b.script = saying("503 Service Unavailable"), saying("503 Service Unavailable", theirs)
    response = await router.ask(good_ns())
    assert (response.status, bytes(response.body), response.path) == (503, theirs, "baseline")
    a.script = b.script = full_stream
    response = await router.ask(good())
    assert (response.status, bytes(response.body)) == (200, error_event(503) + DONE)
    assert response.end is End.COMPLETE
    metrics = await router.metrics()
    assert metrics.sum("requests_total", outcome="failed", path="baseline") == 2
    assert metrics.sum("breaker_state") == 0


async def test_the_other_path_is_gone_the_first_answer_comes_through(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    a.script = saying("503 Service Unavailable")
    b.script = resetting
    response = await router.ask(good_ns())
    assert (response.status, bytes(response.body), response.path) == (503, OVERLOADED, "speculative")


async def test_the_other_path_is_known_to_be_dead(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    b.down()
    router = await start(a, b)
    pair = router.router.services.pair
    await until(lambda: not pair.can_retry(Path.SPECULATIVE), 2.0, "refused probes")
    a.script = saying("503 Service Unavailable")
    response = await router.ask(good_ns())
    assert (response.status, bytes(response.body), response.path) == (503, OVERLOADED, "speculative")
    a.script = full_stream
    assert bytes((await router.ask(good())).body) == error_event(503) + DONE
    assert (await router.metrics()).sum("retries_total") == 0


async def test_no_retry_if_so_configured(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, retry={"other_path": 0})
    a.script = saying("503 Service Unavailable")
    assert bytes((await router.ask(good_ns())).body) == OVERLOADED
    a.script = resetting
    assert assert_openai_error(await router.ask(good()), 502)["code"] == "engine_reset"
    a.script = full_stream
    assert bytes((await router.ask(good())).body) == error_event(503) + DONE
    assert not b.requests


async def test_nothing_is_retried_after_the_first_event(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    async def breaking(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(chat_events()[0])
        await conn.pause(0.05)
        conn.rst()

    a.script = breaking
    response = await router.ask(good())
    assert response.status == 200
    assert response.end in (End.EOF, End.RST), "cut, and seen to be cut"
    assert b"engine_stream_broken" in response.body
    assert not b.requests
    metrics = await router.metrics()
    assert metrics.sum("requests_total", path="speculative", outcome="failed") == 1


async def test_an_event_cut_before_its_end_is_retried_only_if_nothing_was_sent(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    a.script = half_an_event
    response = await router.ask(good())
    if response.path == "baseline":
        assert_good(response, Path.BASELINE, "retry")
    else:
        assert response.end in (End.EOF, End.RST) or response.status == 502
    assert len(b.requests) == (response.path == "baseline")


async def test_a_time_limit_is_not_retried(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    router = await start(a, b, timeouts={"first_byte": "200ms"})

    async def silent(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(30)

    a.script = silent
    began = time.monotonic()
    assert assert_openai_error(await router.ask(good()), 504)["code"] == "first_byte_timeout"
    assert 0.15 < time.monotonic() - began < 1.5
    assert not b.requests


async def test_a_stale_connection_is_replaced_once(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    """An engine may close an idle connection in the very moment a request is sent on it."""

    async def once_per_connection(conn: EngineConn, request: RawRequest) -> None:
        if conn.served:
            conn.fin()
        else:
            await conn.stream(chat_events())

    a.script = once_per_connection
    for _ in range(3):
        assert_good(await router.ask(good()), Path.SPECULATIVE, "policy")
    assert not b.requests
    assert len(a.requests) == 5, "the second and the third were sent twice"
    metrics = await router.metrics()
    same = {"from": "speculative", "to": "speculative"}
    assert metrics.sum("retries_total", reason="stale_connection", **same) == 2
    assert metrics.sum("breaker_state") == 0
    assert metrics.sum("requests_total") == metrics.sum("requests_total", outcome="ok") == 3


async def test_the_first_token_of_a_retried_request_is_the_answers(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    """The refusal came at once, the answer later: only that is a time to first token."""

    async def slow(conn: EngineConn, request: RawRequest) -> None:
        await conn.pause(0.3)
        await conn.stream(chat_events())

    a.script, b.script = full_stream, slow
    assert_good(await router.ask(good()), Path.BASELINE, "retry")
    metrics = await router.metrics()
    assert metrics.sum("time_to_first_token_seconds_count") == 1
    assert metrics.sum("time_to_first_token_seconds_sum", path="baseline") >= 0.3


async def test_an_upload_is_repeated_whole(router: Running, a: FakeEngine, b: FakeEngine) -> None:
    a.script = resetting
    body = b'{"stream": true, "p": "' + b"x" * 3_000_000 + b'"}'
    pieces = [body[at : at + 100_000] for at in range(0, len(body), 100_000)]
    assert_good(await router.ask(post_chunked(pieces)), Path.BASELINE, "retry")
    assert bytes(b.requests[0].body) == body
    assert b.requests[0].head.get("content-length") == str(len(body))
