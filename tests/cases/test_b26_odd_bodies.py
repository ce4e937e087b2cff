"""B-26: odd request bodies crash the router.

Right value: never 5xx, never a traceback. Either 400, OpenAI-shaped, from the router, or the bytes pass
unchanged and the engine's own answer comes back; one policy per class. Not counted against the engine's
health. 4xx matters because SDKs retry 5xx.
"""

from __future__ import annotations

import json

import pytest

from .kit.client import End, RawClient, ask, assert_openai_error, chat_body, good_ns, post, request_bytes
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, good
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sdk import SDKS, Sdk, sdk_chat
from .kit.sse import error_body

VALID = chat_body(stream=False)
DEEP = 100_000

ODD: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \r\n\t ",
    "cut": b"{",
    "cut_string": b'{"model": "fa',
    "array": b"[]",
    "string": b'"x"',
    "null": b"null",
    "true": b"true",
    "number": b"123",
    "bom": b"\xef\xbb\xbf" + VALID,
    "utf16": VALID.decode().encode("utf-16"),
    "utf16_le": VALID.decode().encode("utf-16-le"),
    "utf32": VALID.decode().encode("utf-32"),
    "latin1": VALID.replace(b"France", b"Fran\xe7ais"),
    "invalid_key": VALID.replace(b'"model"', b'"mod\xffel"'),
    "nul": VALID + b"\x00",
    "raw_newline_in_string": VALID.replace(b"France", b"Fra\nnce"),
    "nested_arrays": b"[" * DEEP,
    "nested_arrays_closed": b"[" * DEEP + b"]" * DEEP,
    "nested_objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "nested_in_a_field": VALID[:-1] + b', "tools": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "model_null": b'{"model": null, "messages": []}',
    "model_number": b'{"model": 5, "messages": []}',
    "model_object": b'{"model": {"a": 1}, "messages": []}',
    "model_missing": b'{"messages": [{"role": "user", "content": "x"}]}',
    "model_1_mib": VALID.replace(b'"fake"', b'"' + b"m" * 1024 * 1024 + b'"'),
    "model_twice": b'{"model": "a", "model": "b", "messages": []}',
    "stream_twice": VALID[:-1] + b', "stream": true}',
    "stream_string": VALID.replace(b"false", b'"yes"'),
    "stream_number": VALID.replace(b"false", b"1"),
    "stream_null": VALID.replace(b"false", b"null"),
    "stream_escaped": VALID.replace(b'"stream"', b'"str\\u0065am"').replace(b"false", b"true"),
    "stream_options_number": VALID[:-1] + b', "stream_options": 5}',
    "nan": VALID[:-1] + b', "temperature": NaN}',
    "infinity": VALID[:-1] + b', "temperature": -Infinity}',
    "float_overflow": VALID[:-1] + b', "temperature": 1e400}',
    "digits_5000": VALID[:-1] + b', "seed": ' + b"9" * 5000 + b"}",
    "max_tokens_huge": VALID[:-1] + b', "max_tokens": 99999999999999999999}',
    "min_p_string": VALID[:-1] + b', "min_p": "x"}',
    "beam_width_object": VALID[:-1] + b', "beam_width": {}}',
    "previous_response_number": VALID[:-1] + b', "previous_response_id": 7}',
    "session_params_list": VALID[:-1] + b', "session_params": [1]}',
    "lone_surrogate": VALID.replace(b"France", b"\\ud800"),
    "bad_escape": VALID.replace(b"France", b"\\x41"),
    "comment": b"/* x */" + VALID,
    "trailing_comma": VALID[:-1] + b",}",
    "trailing_garbage": VALID + b"garbage",
    "two_documents": VALID + VALID,
    "messages_missing": b'{"model": "fake"}',
    "messages_string": b'{"model": "fake", "messages": "x"}',
    "messages_null": b'{"model": "fake", "messages": [null]}',
    "many_keys": b"{" + b",".join(b'"k%d":%d' % (i, i) for i in range(50_000)) + b"}",
}
TARGETS = ["/v1/chat/completions", "/v1/completions", "/generate", "/v1/responses", "/v1/embeddings"]


async def picky(conn: EngineConn, request: RawRequest) -> None:
    """Refuses what SGLang refuses: no JSON object, or one without messages."""
    try:
        body = json.loads(bytes(request.body).decode("utf-8"))
        fine = isinstance(body, dict) and isinstance(body.get("messages"), list)
    except (ValueError, RecursionError):
        fine = False
    if fine:
        await good(conn, request)
    else:
        await conn.reply(error_body(400, "bad body", "Bad Request"), "400 Bad Request")


async def assert_refused_or_relayed(router: RouterProcess, a: FakeEngine, data: bytes, body: bytes) -> None:
    """One request: the router's own 400, or the engine's answer to the unchanged bytes."""
    a.script = picky
    a.forget()
    response = await ask(router.data_port, data)
    assert response.end is End.COMPLETE
    assert response.status < 500, bytes(response.body[:300])
    if a.requests:
        assert [bytes(request.body) for request in a.requests] == [body]
        refused = bytes(response.body) == error_body(400, "bad body", "Bad Request")
        assert (response.status == 400) == refused
    else:
        error = assert_openai_error(response, 400)
        assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("name", ODD)
async def test_odd_body(router: RouterProcess, a: FakeEngine, b: FakeEngine, name: str) -> None:
    """B-26: never 5xx; asked at most once; on every endpoint."""
    for target in TARGETS:
        await assert_refused_or_relayed(router, a, post(ODD[name], target), ODD[name])
    assert b.requests == []


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/json; charset=nonsense",
        "application/octet-stream",
        "\xff\xfe",
        "application/json, text/plain",
    ],
)
async def test_content_type(router: RouterProcess, a: FakeEngine, kind: str | None) -> None:
    """B-26: wrong or missing content types."""
    headers = () if kind is None else (("content-type", kind),)
    data = request_bytes("POST", "/v1/chat/completions", headers, VALID)
    await assert_refused_or_relayed(router, a, data, VALID)
    for request in a.requests:
        assert request.head.all("content-type") == ([] if kind is None else [kind])


async def test_engine_is_not_blamed(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-26: many odd bodies in a row leave the engine's health and the breaker alone."""
    a.script = picky
    async with await RawClient.connect(router.data_port) as client:
        for name in ("cut", "array", "messages_missing", "messages_string", "nan", "model_null") * 10:
            assert (await client.ask(post(ODD[name]))).status < 500
    metrics = await router.metrics()
    assert metrics.sum("breaker_state") == 0
    assert metrics.sum("engine_up", path="speculative") == 1
    assert metrics.active_path() == "speculative"
    assert b.requests == []
    await assert_quiet(router, a, b, expect=a)


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_sdk_raises_bad_request(router: RouterProcess, a: FakeEngine, sdk: Sdk, stream: bool) -> None:
    """B-26 seen by the stock SDKs: the engine's 400 is a BadRequestError."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(error_body(400), "400 Bad Request")

    a.script = script
    seen = await sdk_chat(sdk, router.data_port, stream=stream)
    assert (seen.error, seen.status) == ("BadRequestError", 400)
    assert len(a.requests) == 1


async def test_connection_survives(router: RouterProcess, a: FakeEngine) -> None:
    """B-26: after a refusal the same connection serves the next request."""
    async with await RawClient.connect(router.data_port) as client:
        for name in ("cut", "array", "digits_5000"):
            await client.ask(post(ODD[name]))
            assert client.peer_gone_at is None
        assert (await client.ask(good_ns())).status == 200


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
