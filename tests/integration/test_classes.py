"""Requests that one path alone can serve, through a running router."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router.sim.server import SimulatedPair
from tests.cases.kit.client import RawResponse, assert_openai_error, request_bytes
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.scripts import replying, reset
from tests.cases.kit.sse import DONE, chat_events, compact, error_event
from tests.integration.conftest import RouterFactory
from tests.support.running import Running, paths_up

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MESSAGES = {"messages": [{"role": "user", "content": "hi"}]}
TOO_LONG = "The input (4096 tokens) is longer than the model's context length (4096 tokens)."
OVER_POOL = (
    "Input length (1711 tokens) exceeds the maximum allowed length (1594 tokens). Use a shorter input."
)


async def ask(own: Running, target: str, body: dict[str, Any], **headers: str) -> RawResponse:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    data = json.dumps(body).encode()
    head = (("content-type", "application/json"), *fields)
    return await own.ask(request_bytes("POST", target, head, data))


def way(answer: RawResponse) -> tuple[str | None, str | None]:
    return answer.head.get("x-router-path"), answer.head.get("x-router-reason")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (CHAT, {**MESSAGES, "min_p": 0.1}),
        (CHAT, {**MESSAGES, "custom_logit_processor": "x", "stream": True}),
        ("/generate", {"text": "hi", "sampling_params": {"beam_width": 4}}),
        ("/generate", {"text": "hi", "return_sampling_mask": True}),
    ],
)
async def test_a_class_goes_to_the_baseline(
    router: Running, a: FakeEngine, b: FakeEngine, target: str, body: dict[str, Any]
) -> None:
    await paths_up(router, *router.router.services.pair.engines)
    answer = await ask(router, target, body)
    assert (answer.status, *way(answer)) == (200, "baseline", "class")
    assert (len(a.requests), len(b.requests)) == (0, 1)
    assert json.loads(b.requests[0].body) == body, "passed on as it came"
    metrics = await router.metrics()
    assert metrics.sum("pins_total", path="baseline", reason="class") == metrics.sum("pins_total") == 1


async def test_a_class_whose_engine_is_dead_is_told_why_and_others_are_served(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    await paths_up(router, *router.router.services.pair.engines)
    b.down(reset=True)
    await paths_up(router, next(iter(router.router.services.pair.engines)))
    answer = await ask(router, CHAT, {**MESSAGES, "min_p": 0.1})
    error = assert_openai_error(answer, 503)
    assert error["code"] == "path_unavailable"
    assert error["message"].startswith("Only the baseline engine can serve this request (`min_p`)")
    assert answer.head.get("retry-after")
    assert way(await ask(router, CHAT, MESSAGES)) == ("speculative", "policy")
    assert len(a.requests) == 1
    assert (await router.metrics()).sum("rejected_total", reason="no_engine") == 1


async def test_a_class_that_fails_is_not_tried_where_it_would_be_served_wrong(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    b.script = reset
    answer = await ask(router, CHAT, {**MESSAGES, "min_p": 0.1})
    assert_openai_error(answer, 502)
    assert (len(a.requests), len(b.requests)) == (0, 1)


async def test_an_operators_rule_and_the_header_after_it(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    rules = [{"field": "chat_template_kwargs.thinking", "when": "true", "path": "baseline"}]
    own = await start(a, b, routing={"allow_path_header": True, "rules": rules})
    await paths_up(own, *own.router.services.pair.engines)
    thinking = {**MESSAGES, "chat_template_kwargs": {"thinking": True}}
    assert way(await ask(own, CHAT, thinking, x_router_path="speculative")) == ("baseline", "class")
    thinking["chat_template_kwargs"] = {"thinking": False}
    assert way(await ask(own, CHAT, thinking, x_router_path="baseline")) == ("baseline", "header")
    assert way(await ask(own, CHAT, thinking)) == ("speculative", "policy")
    metrics = await own.metrics()
    assert metrics.sum("pins_total", path="baseline", reason="header") == 1
    assert metrics.sum("pins_total", path="baseline", reason="class") == 1


@pytest.mark.parametrize("target", [CHAT, "/generate"])
async def test_sessions_are_refused_and_session_labels_are_not(
    router: Running, a: FakeEngine, target: str
) -> None:
    answer = await ask(router, target, {**MESSAGES, "text": "hi", "session_params": {"id": "s"}})
    assert assert_openai_error(answer, 400)["code"] == "sessions_not_supported"
    assert a.requests == []
    body = {**MESSAGES, "text": "hi", "session_id": "s", "session_params": None}
    assert (await ask(router, target, body)).status == 200


# ---- too long for speculation


@pytest.mark.parametrize("message", [TOO_LONG, OVER_POOL])
async def test_what_is_too_long_for_speculation_is_tried_on_the_baseline(
    router: Running, a: FakeEngine, b: FakeEngine, message: str
) -> None:
    refusal = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
    a.script = replying("400 Bad Request", compact(refusal))
    answer = await ask(router, CHAT, MESSAGES)
    assert (answer.status, *way(answer)) == (200, "baseline", "retry")
    metrics = await router.metrics()
    retried = {"from": "speculative", "to": "baseline", "reason": "context_length_exceeded"}
    assert metrics.sum("retries_total", **retried) == 1
    assert metrics.sum("breaker_state") == 0
    b.script = a.script
    answer = await ask(router, CHAT, MESSAGES)
    assert (answer.status, answer.json()) == (400, refusal), "too long for both"


async def test_a_stream_that_begins_with_such_a_refusal_is_tried_on_the_baseline(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    events = [error_event(400, OVER_POOL), DONE]

    async def refuse(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream(events)

    a.script = refuse
    answer = await ask(router, CHAT, {**MESSAGES, "stream": True})
    assert way(answer) == ("baseline", "retry")
    assert bytes(answer.body) == b"".join(chat_events())
    b.script = reset
    answer = await ask(router, CHAT, {**MESSAGES, "stream": True})
    assert bytes(answer.body) == b"".join(events), (
        "what the first engine said is better than an error of ours"
    )


@pytest.mark.parametrize(
    "body",
    [
        compact({"object": "error", "message": "temperature must be non-negative", "code": 400}),
        compact({"object": "error", "message": f"1 validation error: {TOO_LONG} {'x' * 9000}", "code": 400}),
        b"",
    ],
)
async def test_another_400_is_passed_on_as_it_is(
    router: Running, a: FakeEngine, b: FakeEngine, body: bytes
) -> None:
    a.script = replying("400 Bad Request", body)
    answer = await ask(router, CHAT, MESSAGES)
    assert (answer.status, bytes(answer.body)) == (400, body)
    assert b.requests == []


async def test_a_prompt_at_the_limit_of_the_context(sims: SimulatedPair, start: RouterFactory) -> None:
    own = await start(sims.speculative, sims.baseline)
    limit = sims.params.context_length
    # EAGLE reserves room for its draft: a few tokens less than the baseline takes.
    body = {"prompt": [7] * (limit - 3), "max_tokens": 2}
    answer = await ask(own, "/v1/completions", body)
    assert (answer.status, *way(answer)) == (200, "baseline", "retry")


# ---- stored responses


def stored(engine: FakeEngine) -> dict[str, str]:
    """Let the engine keep responses as SGLang does; returns what it holds: text by id."""
    held: dict[str, str] = {}

    async def script(conn: EngineConn, request: RawRequest) -> None:
        if request.method == "POST" and request.path == RESPONSES:
            body = json.loads(request.body)
            previous = body.get("previous_response_id")
            if previous is not None and previous not in held:
                await conn.reply(compact({"error": {"message": "not found", "code": 404}}), "404 Not Found")
                return
            name = f"resp_{engine.name}{len(held)}"
            held[name] = body["input"]
            whole = {"id": name, "object": "response", "output": [{"text": '{"id": "resp_no"}'}]}
            if body.get("stream"):
                created = {"type": "response.created", "response": whole}
                await conn.stream([b"event: response.created\ndata: " + compact(created) + b"\n\n", DONE])
            else:
                await conn.reply(compact(whole))
            return
        name = request.path.removeprefix(RESPONSES + "/").removesuffix("/cancel")
        if name in held:
            await conn.reply(compact({"id": name, "text": held[name], "cancel": request.method == "POST"}))
        else:
            await conn.reply(compact({"error": {"message": "not found", "code": 404}}), "404 Not Found")

    engine.script = script
    return held


async def get(own: Running, name: str, cancel: bool = False) -> RawResponse:
    if cancel:
        return await own.ask(request_bytes("POST", f"{RESPONSES}/{name}/cancel"))
    return await own.get(f"{RESPONSES}/{name}")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_returns_to_the_engine_that_holds_it(
    start: RouterFactory, a: FakeEngine, b: FakeEngine, stream: bool
) -> None:
    own = await start(a, b, routing={"allow_path_header": True})
    await paths_up(own, *own.router.services.pair.engines)
    in_a, in_b = stored(a), stored(b)
    first = await ask(own, RESPONSES, {"input": "one", "stream": stream}, x_router_path="baseline")
    assert way(first) == ("baseline", "header")
    (name,) = in_b
    second = await ask(own, RESPONSES, {"input": "two", "previous_response_id": name})
    assert (second.status, *way(second)) == (200, "baseline", "affinity")
    assert list(in_b.values()) == ["one", "two"]
    assert in_a == {}
    for cancel in (False, True):
        answer = await get(own, name, cancel)
        assert answer.json() == {"id": name, "text": "one", "cancel": cancel}
        assert answer.path == "baseline"
    assert (await own.metrics()).sum("pins_total", path="baseline", reason="affinity") == 1
    b.down(reset=True)
    await paths_up(own, next(iter(own.router.services.pair.engines)))
    assert_openai_error(await get(own, name), 503)
    in_b.clear()
    b.up()
    await paths_up(own, *own.router.services.pair.engines)
    assert (await get(own, name)).status == 404, "what an engine held ends with it"


async def test_a_conversation_whose_engine_is_being_left_fails_visibly(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    own = await start(a, b, routing={"allow_path_header": True})
    await paths_up(own, *own.router.services.pair.engines)
    stored(a)
    in_b = stored(b)
    await ask(own, RESPONSES, {"input": "one"}, x_router_path="baseline")
    (name,) = in_b
    b.script = reset
    assert_openai_error(await ask(own, RESPONSES, {"input": "two", "previous_response_id": name}), 502)
    error = assert_openai_error(await get(own, name), 503)
    assert error["code"] == "path_unavailable"


@pytest.mark.parametrize("holder", [0, 1])
async def test_a_response_that_no_answer_told_of_is_looked_for(
    router: Running, a: FakeEngine, b: FakeEngine, holder: int
) -> None:
    in_a, in_b = stored(a), stored(b)
    (in_a, in_b)[holder]["resp_x"] = "hello"
    for cancel in (False, True):
        answer = await get(router, "resp_x", cancel)
        assert (answer.json()["text"], answer.path) == ("hello", ("speculative", "baseline")[holder])
        assert (await get(router, "resp_y", cancel)).status == 404
    b.script = reset
    assert_openai_error(await get(router, "resp_y"), 503)


async def test_an_unknown_previous_response_is_the_active_engines_to_refuse(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    stored(a)
    answer = await ask(router, RESPONSES, {"input": "x", "previous_response_id": "resp_unknown"})
    assert (answer.status, *way(answer)) == (404, "speculative", "policy")


async def test_a_class_and_a_response_that_need_different_engines(
    router: Running, a: FakeEngine, b: FakeEngine
) -> None:
    in_a = stored(a)
    await ask(router, RESPONSES, {"input": "one"})
    (name,) = in_a
    body = {"input": "two", "previous_response_id": name, "min_p": 0.1}
    assert assert_openai_error(await ask(router, RESPONSES, body), 400)["code"] == "conflicting_paths"
    assert b.requests == []


async def test_stored_responses_need_a_key_like_everything(
    start: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    own = await start(a, b, server={"api_keys": ["secret"]})
    assert_openai_error(await get(own, "resp_x"), 401)
    assert_openai_error(await get(own, "resp_x", cancel=True), 401)
    assert a.requests == []
