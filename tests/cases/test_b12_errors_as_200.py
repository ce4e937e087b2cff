"""B-12: errors of the engine turned into 200 for streamed requests.

Right value: the client gets the engine's status, body bytes and content type; a 5xx may go to the other
engine first, a 4xx never does.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from .kit import limits
from .kit.client import RawClient, RawResponse, ask, good, good_ns
from .kit.conn import EngineConn, Fields, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.scripts import FOREVER, after, replying
from .kit.sdk import SDKS, Sdk, sdk_chat
from .kit.sse import DONE, JSON_HEADERS, chat_answer, error_body, error_event, role

CONFIG = {"breaker": {"failure_threshold": 1000}}

REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}
CLIENT_ERRORS = (400, 401, 403, 404, 409, 413, 422)
SERVER_ERRORS = (429, 500, 502, 503)
TEXT: Fields = (("content-type", "text/plain; charset=utf-8"),)
BODIES: dict[str, tuple[bytes, Fields]] = {
    "json": (
        error_body(400, "The input (6031 tokens) is too long."),
        JSON_HEADERS,
    ),
    "text": (b"no good\n", TEXT),
    "empty": (b"", ()),
    "unlike_openai": (b'{"detail":"Not Found"}', JSON_HEADERS),
    "event_stream": (error_event(400), (("content-type", "text/event-stream"),)),
    "large": (b'{"error":"' + b"x" * 300_000 + b'"}', JSON_HEADERS),
}


def failing(status: int, body: bytes, headers: Fields) -> Script:
    """An answer with that status."""
    return replying(f"{status} {REASONS[status]}", body, headers)


def assert_passed_on(response: RawResponse, status: int, body: bytes, headers: Fields) -> None:
    """Status, content type and body are the engine's."""
    assert response.status == status
    assert bytes(response.body) == body
    assert response.head.get("content-type") == (headers[0][1] if headers else None)


@pytest.mark.parametrize("data", [good(), good_ns()], ids=["stream", "whole"])
@pytest.mark.parametrize(("body", "headers"), BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("status", CLIENT_ERRORS)
async def test_client_errors(
    router: RouterProcess,
    a: FakeEngine,
    b: FakeEngine,
    status: int,
    body: bytes,
    headers: Fields,
    data: bytes,
) -> None:
    """B-12: 4xx pass as they are and exactly one engine is asked."""
    a.script = failing(status, body, headers)
    assert_passed_on(await ask(router.data_port, data), status, body, headers)
    assert (len(a.requests), len(b.requests)) == (1, 0)


@pytest.mark.parametrize("data", [good(), good_ns()], ids=["stream", "whole"])
@pytest.mark.parametrize(("body", "headers"), BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("status", SERVER_ERRORS)
async def test_server_errors_of_both(
    router: RouterProcess,
    a: FakeEngine,
    b: FakeEngine,
    status: int,
    body: bytes,
    headers: Fields,
    data: bytes,
) -> None:
    """B-12: 5xx and 429 pass as they are after one try at each engine."""
    a.script = failing(status, b"{}", JSON_HEADERS)
    b.script = failing(status, body, headers)
    assert_passed_on(await ask(router.data_port, data), status, body, headers)
    assert (len(a.requests), len(b.requests)) == (1, 1)


@pytest.mark.parametrize("status", SERVER_ERRORS)
async def test_server_errors_of_one(router: RouterProcess, a: FakeEngine, b: FakeEngine, status: int) -> None:
    """B-12: the allowed failover; the client sees only the other engine's answer."""
    a.script = failing(status, b"{}", JSON_HEADERS)
    response = await ask(router.data_port, good())
    assert (response.status, response.path) == (200, "baseline")
    assert response.body.endswith(b"[DONE]\n\n")
    assert (len(a.requests), len(b.requests)) == (1, 1)


@pytest.mark.parametrize("pause", [0.4, pytest.param(3.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("status", [400, 503])
async def test_after_a_pause(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, status: int, pause: float
) -> None:
    """B-12: the error comes late; nothing was committed meanwhile."""
    body = error_body(status)
    a.script = b.script = after(pause, failing(status, body, JSON_HEADERS))
    assert_passed_on(await ask(router.data_port, good()), status, body, JSON_HEADERS)


async def test_json_although_stream_was_asked(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-12: 200 with `application/json` although `stream` was true passes as it is."""
    a.script = replying("200 OK", chat_answer())
    assert_passed_on(await ask(router.data_port, good()), 200, chat_answer(), JSON_HEADERS)
    assert len(b.requests) == 0


async def test_error_in_the_first_event(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-12: SGLang says "queue full" as 200 with a first event; that is retried like a 503."""

    async def busy(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream([error_event(503), b"data: [DONE]\n\n"])

    a.script = busy
    response = await ask(router.data_port, good())
    assert (response.status, response.path) == (200, "baseline")
    assert b"error" not in response.body


@pytest.mark.parametrize("code", [400, 503])
async def test_error_event_of_both(router: RouterProcess, a: FakeEngine, b: FakeEngine, code: int) -> None:
    """Kin of B-12: an error event that cannot be repaired elsewhere passes byte for byte."""

    async def bad(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream([error_event(code), b"data: [DONE]\n\n"])

    a.script = b.script = bad
    response = await ask(router.data_port, good())
    assert response.status == 200
    assert bytes(response.body) == error_event(code) + b"data: [DONE]\n\n"
    assert len(b.requests) == (1 if code == 503 else 0)


@pytest.mark.parametrize(("last", "outcome"), [(error_event(500), "failed"), (DONE, "ok")])
async def test_a_client_that_leaves_ahead_of_the_last_chunk(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, last: bytes, outcome: str
) -> None:
    """Kin of B-12: SDKs close on an error event and on `[DONE]`; neither is a cancellation."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(role())
        await conn.chunk(last)
        await conn.pause(FOREVER)

    a.script = script
    before = await router.metrics()
    client = await RawClient.connect(router.data_port)
    await client.request(good())
    response = await client.started()
    await client.wait(lambda: response.body.endswith(last), 5.0, "the last event")
    client.fin()
    await a.wait_closed(a.requests[0].conn, limits.CLOSE_SECONDS)
    await until_counted(router, before.sum("requests_total") + 1)
    now = await router.metrics()
    changed = [
        name
        for name in ("ok", "failed", "cancelled", "rejected")
        if now.sum("requests_total", outcome=name) != before.sum("requests_total", outcome=name)
    ]
    assert changed == [outcome]


async def until_counted(router: RouterProcess, total: float) -> None:
    """Wait until so many requests have ended."""
    deadline = time.monotonic() + limits.QUIET_SECONDS
    while (await router.metrics()).sum("requests_total") < total:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.03)


async def test_interim_responses(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-12: 1xx responses before the real one are not taken for it."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
        await conn.reply(error_body(422), "422 Unprocessable Entity")

    a.script = script
    response = await ask(router.data_port, good())
    assert_passed_on(response, 422, error_body(422), JSON_HEADERS)
    assert response.head.get("link") is None


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500, 503])
@pytest.mark.parametrize("sdk", SDKS)
async def test_sdk_raises(
    router: RouterProcess, a: FakeEngine, b: FakeEngine, sdk: Sdk, status: int, stream: bool
) -> None:
    """B-12: the SDKs raise what they raise without a router."""
    a.script = b.script = failing(status, error_body(status), JSON_HEADERS)
    direct = await sdk_chat(sdk, a.port, stream=stream)
    routed = await sdk_chat(sdk, router.data_port, stream=stream)
    assert routed == direct
    assert (routed.status, routed.text) == (status, "")


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
