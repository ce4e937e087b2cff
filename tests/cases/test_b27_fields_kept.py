"""B-27: fields lost or altered on the way.

Right value: request and response bodies byte-identical to direct access; end-to-end headers pass both ways.
A relay that parses and rebuilds changes numbers, escapes, order and white space.
"""

from __future__ import annotations

import pytest

from .kit.client import CHAT, ask, chat_body, good_ns, post
from .kit.conn import EngineConn, Fields, RawRequest
from .kit.engine import FakeEngine
from .kit.exchange import exchange
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import JSON_HEADERS, chat_answer, content, event

BODIES: dict[str, bytes] = {
    "unknown_fields": chat_body(stream=False, brand_new=1, nested={"deep": {"new": [1, {"x": None}]}}),
    "logit_bias": chat_body(stream=False, logit_bias={"50256": -100, "1": 0.5}),
    "integers": chat_body(stream=False, seed=2**63 - 1, low=-(2**63), over=2**64, digits=10**40),
    "floats": b'{"model":"fake","messages":[],"a":1e400,"b":-0.0,"c":1.0,"d":1E+2,"e":0.10,"f":1e-400}',
    "escapes": b'{"model":"fake","messages":[{"role":"user","content":'
    b'"\\u00e9 \xc3\xa9 \\/ / \\u002f \\ud83c\\udf0d"}]}',
    "order": b'{"z":1,"messages":[],"a":2,"stream":false,"model":"fake","m":3}',
    "white_space": b'\r\n {\t"model" :\n"fake" ,"messages":[ ] , "stream" : false\r\n}\n\n ',
    "duplicate_keys": b'{"model":"fake","x":1,"x":2,"messages":[],"messages":[{"role":"user"}]}',
    "empty_keys": b'{"":1,"model":"fake","messages":[]," model":"other"}',
    "tools": chat_body(
        stream=False, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]
    ),
    "stream": chat_body(stream=True, stream_options={"include_usage": True, "new": 1}),
    "stream_without_usage": chat_body(stream=True),
    "nothing_but_messages": b'{"messages":[]}',
    "long": chat_body(stream=False, pad="\u4eac" * 300_000),
}
END_TO_END: Fields = (
    ("X-Request-Id", "req_Abc-123.45"),
    ("OpenAI-Organization", "org-1"),
    ("OpenAI-Project", "proj-1"),
    ("OpenAI-Beta", "assistants=v2"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "a=1,b=2"),
    ("baggage", "k=v"),
    ("X-Stainless-Lang", "python"),
    ("X-Stainless-Retry-Count", "0"),
    ("User-Agent", "OpenAI/Python 3"),
    ("Accept", "application/json, */*;q=0.1"),
    ("Idempotency-Key", "stainless-python-retry-1"),
    ("anthropic-version", "2023-06-01"),
    ("Cookie", "a=1; b=2"),
    ("X-Empty", ""),
    ("X-Latin", "caf\xe9"),
    ("X-Twice", "1"),
    ("X-Twice", "2"),
)


@pytest.mark.parametrize("target", [CHAT, CHAT + "?a=1&b=%2F..&a=2&c", "/v1/completions?x=%20+"])
@pytest.mark.parametrize("name", BODIES)
async def test_request_body(router: RouterProcess, a: FakeEngine, name: str, target: str) -> None:
    """B-27: what the engine gets is what the client sent, query included."""
    response = await ask(router.data_port, post(BODIES[name], target))
    assert response.status == 200
    (request,) = a.requests
    assert bytes(request.body) == BODIES[name]
    assert request.target == target


async def test_request_headers(router: RouterProcess, a: FakeEngine) -> None:
    """B-27: end-to-end request headers arrive, in order where doubled."""
    await ask(router.data_port, good_ns(END_TO_END))
    (request,) = a.requests
    for name in {name for name, _ in END_TO_END}:
        assert request.head.all(name) == [value for key, value in END_TO_END if key == name]


ANSWERS: dict[str, bytes] = {
    "unknown_fields": chat_answer(brand_new=1, nested={"a": [1, {"b": None}]}),
    "reasoning": b'{"choices":[{"message":{"reasoning_content":"\\u00e9\\/","content":null}}],"x":1.0}',
    "logprobs": b'{"choices":[{"logprobs":{"content":['
    b'{"token":"a","logprob":-0.0,"bytes":[255],"top_logprobs":[]}]}}]}',
    "white_space": b'\n { "choices" : [ ] }\r\n\r\n',
    "no_json": b"<html>hello</html>",
    "empty": b"",
    "usage_twice": b'{"usage":{"completion_tokens":1},"usage":{"completion_tokens":2}}',
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answer_body(router: RouterProcess, a: FakeEngine, name: str) -> None:
    """B-27: whole answers pass as they are, with the engine's end-to-end headers."""
    extra: Fields = (
        ("openai-processing-ms", "12"),
        ("x-ratelimit-remaining-requests", "7"),
        ("etag", 'W/"x"'),
        ("x-multi", "1"),
        ("x-multi", "2"),
        ("vary", "Origin"),
    )

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(ANSWERS[name], headers=(("Content-Type", "application/json; x=y"), *extra))

    seen = await exchange(router, a, script, good_ns())
    assert bytes(seen.response.body) == ANSWERS[name]
    assert seen.response.head.get("content-type") == "application/json; x=y"
    for key in {key for key, _ in extra}:
        assert seen.response.head.all(key) == [value for other, value in extra if other == key]


async def test_stream_events(router: RouterProcess, a: FakeEngine) -> None:
    """B-27: events with unknown fields and every spelling of numbers pass as they are."""
    events = [
        content("a"),
        event({"choices": [{"delta": {"reasoning_content": "r", "new": {"x": 2**63}}}], "surprise": True}),
        b'data: {"choices": [ ],"a":1e400,"b":-0.0,"c":"\\u00e9\\/"}\n\n',
        b"event: odd\nid: 1\nretry: 10\ndata: {}\nnew-field: 1\n\n",
        b"data: not json at all\n\n",
        b"data: [DONE]\n\n",
        b"data: after done\n\n",
    ]

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream(events)

    seen = await exchange(router, a, script)
    assert bytes(seen.response.body) == b"".join(events)


@pytest.mark.parametrize("name", ["client_sends", "engine_sends", "both_send", "none"])
async def test_request_id(router: RouterProcess, a: FakeEngine, name: str) -> None:
    """B-27: one x-request-id on the answer: the client's if it sent one, and the engine sees the same."""
    theirs = name in ("engine_sends", "both_send")

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(
            chat_answer(), headers=(*JSON_HEADERS, *((("X-Request-Id", "engine-1"),) if theirs else ()))
        )

    own: Fields = (("X-Request-Id", "client-1"),) if name in ("client_sends", "both_send") else ()
    seen = await exchange(router, a, script, good_ns(own))
    answered, asked = seen.response.head.get("x-request-id"), seen.request.head.get("x-request-id")
    assert answered
    assert asked
    if own:
        assert asked == "client-1"
    assert answered == asked or (theirs and answered == "engine-1")


@pytest.mark.parametrize("bad", ["a" * 5000, "a b\tc", "<script>", "\xff\xfe", "", '"; drop'])
async def test_insane_request_id(router: RouterProcess, a: FakeEngine, bad: str) -> None:
    """B-27 kin: an insane id is replaced rather than reflected; the request itself is served."""
    response = await ask(router.data_port, good_ns((("X-Request-Id", bad),)))
    assert response.status == 200
    answered = response.head.get("x-request-id")
    assert answered
    assert answered != bad


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
