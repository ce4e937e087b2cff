"""Ending a request early: by its id, and by leaving."""

from __future__ import annotations

import asyncio

import pytest

from router.core.words import Path
from tests.cases.kit.client import CHAT
from tests.contract.backends import Pair
from tests.contract.occupy import LONG, abort, holds, idle, until
from tests.contract.spot import SECONDS, Body, Spot, chat_body, events, generate_body, refusal
from tests.support.leftovers import Errors
from tests.support.running import Running

COMPLETIONS = "/v1/completions"


async def aborted_total(spot: Spot) -> float:
    """`sglang:num_aborted_requests_total` of the engine; it is absent before the first one."""
    page = bytes((await Spot(spot.engine, spot.engine.port, spot.path).get("/metrics")).body).decode()
    lines = [line for line in page.splitlines() if line.startswith("sglang:num_aborted_requests_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def begun(spot: Spot, rid: str | None = None, *, count: int = 1) -> asyncio.Task[Body]:
    """A long chat request whose answer comes in one piece; `count` run when this returns."""
    body = chat_body(max_tokens=LONG, **({"rid": rid} if rid else {}))
    task = asyncio.ensure_future(whole(spot, body))
    await until(lambda: running(spot, count), f"{count} running requests")
    return task


async def whole(spot: Spot, body: Body) -> Body:
    answer = await spot.post(CHAT, body)
    return {"status": answer.status, "json": answer.json()}


async def running(spot: Spot, count: int = 1) -> bool:
    return (await holds(spot.engine))[0] >= count


async def test_an_answer_in_one_piece_ends_with_what_there_is(spot: Spot) -> None:
    task = await begun(spot, "abort-me")
    await abort(spot.engine, rid="abort-me")
    got = await task
    choice = got["json"]["choices"][0]
    assert (got["status"], got["json"]["id"], choice["finish_reason"]) == (200, "abort-me", "abort")
    assert 0 < got["json"]["usage"]["completion_tokens"] < LONG
    await idle(spot.engine)


@pytest.mark.parametrize("target", [CHAT, COMPLETIONS, "/generate"])
async def test_a_stream_ends_with_a_finish(spot: Spot, target: str) -> None:
    body = {
        CHAT: chat_body(max_tokens=LONG, stream=True),
        COMPLETIONS: {"prompt": "hello", "max_tokens": LONG, "ignore_eos": True, "stream": True},
        "/generate": generate_body(LONG, stream=True),
    }[target]
    client = await spot.open(target, body | {"rid": "abort-the-stream"})
    await client.body(300, within=SECONDS)
    await abort(spot.engine, rid="abort-the-stream")
    answer = await client.response(within=SECONDS)
    client.fin()
    last = events(answer)[-1]
    if target == "/generate":
        reason = last["meta_info"]["finish_reason"]
        assert reason == {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    else:
        assert last["choices"][0]["finish_reason"] == "abort"
        assert last["choices"][0]["matched_stop"] is None


async def test_all_at_once_and_none(direct: Spot) -> None:
    tasks = [await begun(direct), await begun(direct, count=2)]
    await abort(direct.engine, rid="nobody")
    assert await running(direct)
    await abort(direct.engine, abort_all=True)
    answers = await asyncio.gather(*tasks)
    assert [answer["json"]["choices"][0]["finish_reason"] for answer in answers] == ["abort"] * 2


async def test_an_id_ends_those_that_begin_with_it_too(direct: Spot) -> None:
    """But only if it is somebody's own; so ids of one length can't hit each other."""
    tasks = [await begun(direct, "family"), await begun(direct, "family-7", count=2)]
    await abort(direct.engine, rid="fam")
    assert await running(direct, 2)
    await abort(direct.engine, rid="family")
    answers = await asyncio.gather(*tasks)
    assert [answer["json"]["choices"][0]["finish_reason"] for answer in answers] == ["abort"] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_an_id_in_flight_is_refused_and_free_afterwards(spot: Spot, *, stream: bool) -> None:
    task = await begun(spot, "twin")
    refused = refusal(await spot.chat(rid="twin", stream=stream, max_tokens=1), 400)
    assert refused["message"] == "Duplicate request ID detected: twin"
    await abort(spot.engine, rid="twin")
    await task
    assert (await spot.chat(rid="twin", max_tokens=1)).json()["id"] == "twin"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_stops_the_engine(spot: Spot, *, stream: bool) -> None:
    """At once when streamed; otherwise at the engine's next look, every 4 s with the real one."""
    before = await aborted_total(spot)
    client = await spot.open(CHAT, chat_body(max_tokens=LONG, stream=stream))
    if stream:
        await client.body(300, within=SECONDS)
    else:
        await until(lambda: running(spot), "a running request")
    client.fin()

    async def counted() -> bool:
        return await aborted_total(spot) == before + 1

    await until(counted, "one more aborted request", 20.0)
    await idle(spot.engine)


async def test_the_router_can_abort_by_name(pair: Pair, errors: Errors) -> None:
    """`engine.inject_rid`: a non-streamed request ends without the wait for the engine's next look."""
    from tests.contract.conftest import between
    from tests.support.running import running as running_router

    async with running_router(between(pair, engine={"inject_rid": True})) as router:
        spot = Spot(pair.speculative, router.data, Path.SPECULATIVE)
        client = await spot.open(CHAT, chat_body(max_tokens=LONG))
        await until(lambda: running(spot), "a running request")
        client.fin()
        await idle(spot.engine)
        await router.quiet()


async def test_a_router_that_lost_its_client_holds_nothing(router: Running, pair: Pair) -> None:
    spot = Spot(pair.speculative, router.data, Path.SPECULATIVE)
    clients = [await spot.open(CHAT, chat_body(max_tokens=LONG, stream=bool(i % 2))) for i in range(6)]
    await until(lambda: running(spot), "a running request")
    for client in clients:
        client.rst()
    await router.quiet()
    await idle(pair.speculative)
    metrics = await router.metrics()
    assert metrics.sum("requests_total", outcome="cancelled") == 6
