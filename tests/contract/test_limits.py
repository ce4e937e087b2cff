"""Overload and time limits: refusals that need an engine with small limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from router.core.words import Path
from tests.cases.kit.client import CHAT, RawClient, RawResponse
from tests.contract.backends import KEY, LIMITED_CONTEXT, LIMITED_POOL, LIMITED_SLOTS, Engine, Pair
from tests.contract.conftest import between
from tests.contract.occupy import holds, until
from tests.contract.spot import (
    SECONDS,
    Body,
    Spot,
    chat_body,
    events,
    generate_body,
    raw_events,
    refusal,
    stream_error,
)
from tests.support.leftovers import Errors
from tests.support.running import Running, paths_up, running

AUTH = {"authorization": f"Bearer {KEY}"}
USAGE = {"include_usage": True}
COMPLETIONS = "/v1/completions"
PINNED = {"kind": "pinned", "path": "baseline"}
FULL = "The request queue is full."
# Two of these fit into the pool side by side.
LONG = LIMITED_POOL // LIMITED_SLOTS - 200
# One token each, whoever counts.
BIG = ";" * (LIMITED_POOL + 500)


@pytest.fixture
def spot(limited: Engine, errors: Errors) -> Spot:
    """The engine with limits, asked directly."""
    return Spot(limited, limited.port, Path.BASELINE)


@contextlib.asynccontextmanager
async def filled(spot: Spot, queued: int = LIMITED_SLOTS) -> AsyncIterator[list[RawClient]]:
    """Take every slot, and so many places of the queue."""
    clients = []
    try:
        for _ in range(LIMITED_SLOTS):
            clients.append(await spot.open(CHAT, chat_body(max_tokens=LONG, stream=True), **AUTH))
            await clients[-1].started(within=SECONDS)
        body = chat_body(max_tokens=LONG)
        clients += [await spot.open(CHAT, body, **AUTH) for _ in range(queued)]
        if queued:
            await until(lambda: waiting(spot, queued), f"{queued} waiting", 2.0)
        yield clients
    finally:
        for client in clients:
            client.rst()
        await abort_all(spot)


async def waiting(spot: Spot, count: int) -> bool:
    return (await holds(spot.engine, KEY))[1] >= count


async def abort_all(spot: Spot) -> None:
    await spot.post("/abort_request", {"abort_all": True}, **AUTH)

    async def nothing() -> bool:
        return await holds(spot.engine, KEY) == (0, 0)

    await until(nothing, "an idle engine")


def flat(answer: RawResponse) -> tuple[str, int]:
    said = refusal(answer, 503)
    assert (said["object"], said["type"], said["param"]) == ("error", "503", None)
    return said["message"], said["code"]


def aborted(event: Body) -> tuple[str, int]:
    reason = event["meta_info"]["finish_reason"]
    assert reason["type"] == "abort"
    return reason["message"], reason["status_code"]


async def test_a_full_queue(spot: Spot) -> None:
    """503, or the first event of a stream that began with 200; with usage asked for, a count of nothing."""
    short = chat_body(max_tokens=2)
    async with filled(spot):
        whole, stream, counted, completion, native, native_stream = await asyncio.gather(
            spot.post(CHAT, short, **AUTH),
            spot.post(CHAT, short | {"stream": True}, **AUTH),
            spot.post(CHAT, short | {"stream": True, "stream_options": USAGE}, **AUTH),
            spot.post(COMPLETIONS, {"prompt": "x", "stream": True}, **AUTH),
            spot.post("/generate", generate_body(2), **AUTH),
            spot.post("/generate", generate_body(2, stream=True), **AUTH),
        )
    assert flat(whole) == flat(native) == (FULL, 503)
    assert raw_events(stream) == [
        b'data: {"error": {"object": "error", "message": "The request queue is full.", '
        b'"type": "SERVICE_UNAVAILABLE", "param": null, "code": 503}}'
    ]
    error, usage = events(counted)
    assert error["error"]["code"] == 503
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 0)
    assert stream_error(completion)["code"] == 503
    (event,) = events(native_stream)
    assert aborted(event) == (FULL, 503)
    assert (event["text"], event["output_ids"]) == ("", [])


async def test_a_full_queue_in_the_other_dialect(spot: Spot) -> None:
    """The error is the second event here: behind a `message_start` it is too late to go elsewhere."""
    turn = [{"role": "user", "content": "hello"}]
    body: Body = {"model": "tiny", "max_tokens": 2, "messages": turn}
    async with filled(spot):
        whole = await spot.post("/v1/messages", body, **AUTH)
        stream = await spot.post("/v1/messages", body | {"stream": True}, **AUTH)
    said = refusal(whole, 503)
    assert said["error"] == {"type": "overloaded_error", "message": "Internal server error"}
    names = [event.split(b"\n")[0] for event in bytes(stream.body).split(b"\n\n") if event]
    assert (stream.status, names) == (200, [b"event: message_start", b"event: error", b"event: message_stop"])


async def test_waiting_too_long(spot: Spot) -> None:
    async with filled(spot, queued=0):
        stream, whole = await asyncio.gather(
            spot.post(CHAT, chat_body(max_tokens=2, stream=True), **AUTH),
            spot.post(CHAT, chat_body(max_tokens=2), **AUTH),
        )
    assert flat(whole) == ("Request waiting timeout reached.", 503)
    assert stream_error(stream) == {
        "object": "error",
        "message": "Request waiting timeout reached.",
        "type": "SERVICE_UNAVAILABLE",
        "param": None,
        "code": 503,
    }


async def test_running_too_long(spot: Spot) -> None:
    """Tokens, then an error, no finish; the partial text of an answer in one piece is lost."""
    body = chat_body(max_tokens=LIMITED_POOL - 500)
    stream = await spot.post(CHAT, body | {"stream": True, "stream_options": USAGE}, **AUTH)
    found = events(stream)
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"
    if "error" not in found[-2]:
        pytest.skip("this machine is too fast for the limit")
    assert found[-2]["error"]["message"] == "Request running timeout reached."
    assert found[-1]["usage"]["completion_tokens"] > 10
    assert all(choice["finish_reason"] is None for event in found[:-2] for choice in event["choices"])
    whole = await spot.post(CHAT, body, **AUTH)
    assert flat(whole) == ("Request running timeout reached.", 503)


async def test_running_too_long_in_the_native_route(spot: Spot) -> None:
    """It ends like an answer that was aborted, with what there is."""
    answer = await spot.post("/generate", generate_body(LIMITED_POOL - 500, stream=True), **AUTH)
    last = events(answer)[-1]
    if last["meta_info"]["finish_reason"]["type"] == "length":
        pytest.skip("this machine is too fast for the limit")
    assert aborted(last) == ("Request running timeout reached.", 503)
    assert last["text"]


async def test_a_prompt_over_the_pool(spot: Spot) -> None:
    """Under the context length, so that only the scheduler notices."""
    assert LIMITED_POOL < LIMITED_CONTEXT
    body = chat_body(max_tokens=2) | {"messages": [{"role": "user", "content": BIG}]}
    said = refusal(await spot.post(CHAT, body, **AUTH), 400)
    assert f"exceeds the maximum allowed length ({LIMITED_POOL - 6} tokens)" in said["message"]
    error = stream_error(await spot.post(CHAT, body | {"stream": True}, **AUTH))
    assert (error["message"], error["type"], error["code"]) == (said["message"], "BAD_REQUEST", 400)
    native = generate_body(2, BIG)
    assert (
        "maximum allowed length"
        in refusal(await spot.post("/generate", native, **AUTH), 400)["error"]["message"]
    )
    (event,) = events(await spot.post("/generate", native | {"stream": True}, **AUTH))
    assert aborted(event)[1] == 400


async def test_without_the_key(spot: Spot) -> None:
    for target in ("/health", "/ready", "/metrics"):
        assert (await spot.get(target)).status == 200
    for target in ("/v1/models", "/v1/loads", "/server_info", "/model_info", "/ping", "/nope"):
        assert refusal(await spot.get(target), 401) == {"error": "Unauthorized"}
    answer = await spot.post(CHAT, chat_body(), authorization="Bearer wrong")
    assert refusal(answer, 401) == {"error": "Unauthorized"}
    assert answer.head.get("vary") is None
    assert (await spot.post(CHAT, chat_body(max_tokens=1), **AUTH)).status == 200


@contextlib.asynccontextmanager
async def in_front(limited: Engine, pair: Pair) -> AsyncIterator[Running]:
    """A router that sends everything to the engine with limits; the other one has room."""
    urls = {
        "speculative": {"url": f"http://127.0.0.1:{pair.speculative.port}"},
        "baseline": {"url": f"http://127.0.0.1:{limited.port}", "api_key": KEY},
    }
    async with running(between(pair, pairs=[urls], policy=PINNED)) as own:
        await paths_up(own, *Path)
        yield own


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (CHAT, chat_body(max_tokens=2)),
        (CHAT, chat_body(max_tokens=2, stream=True)),
        (COMPLETIONS, {"prompt": "x", "max_tokens": 2, "stream": True}),
        ("/generate", generate_body(2)),
        ("/generate", generate_body(2, stream=True)),
    ],
    ids=["chat", "chat stream", "completion stream", "generate", "generate stream"],
)
async def test_the_router_goes_on_to_the_other_engine(
    spot: Spot, pair: Pair, target: str, body: dict[str, Any]
) -> None:
    """A full queue, however it is said, is answered by the other engine and moves no breaker."""
    async with in_front(spot.engine, pair) as router, filled(spot):
        answer = await Spot(spot.engine, router.data, Path.BASELINE).post(target, body)
        metrics = await router.metrics()
    assert (answer.status, answer.path) == (200, "speculative"), bytes(answer.body)
    assert answer.head.get("x-router-reason") == "retry"
    assert FULL.encode() not in answer.body
    assert metrics.sum("retries_total", reason="engine_overloaded") == 1
    assert metrics.sum("breaker_state") == 0


async def test_the_router_relays_a_refusal_when_there_is_no_other(spot: Spot, pair: Pair) -> None:
    """A pair with one engine: nothing is tried again, and no breaker moves."""
    alone = {"placement": "single", "baseline": {"url": f"http://127.0.0.1:{spot.port}", "api_key": KEY}}
    async with running(between(pair, pairs=[alone])) as router, filled(spot):
        front = Spot(spot.engine, router.data, Path.BASELINE)
        whole = await front.chat(max_tokens=2)
        stream = await front.chat(max_tokens=2, stream=True)
        metrics = await router.metrics()
    assert whole.status == 503, bytes(whole.body)
    assert (stream.status == 503) or b'"code": 503' in bytes(stream.body), bytes(stream.body)
    assert metrics.sum("breaker_state") == 0


async def test_a_limit_reached_in_mid_stream_reaches_the_client(spot: Spot, pair: Pair) -> None:
    """What began cannot be repeated: the engine's own error event passes, and the request has failed."""
    async with in_front(spot.engine, pair) as router:
        front = Spot(spot.engine, router.data, Path.BASELINE)
        found = events(await front.chat(max_tokens=LIMITED_POOL - 500, stream=True))
        metrics = await router.metrics()
    if "error" not in found[-1]:
        pytest.skip("this machine is too fast for the limit")
    assert json.dumps(found[-1]).count("running timeout") == 1
    assert metrics.sum("requests_total", path="baseline", outcome="failed") == 1
