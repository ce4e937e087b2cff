"""How the client of `spec-router bench` reads one answer, whatever pieces it arrives in.

What a request cost is told by its usage, when its text came by the pieces that carry text, and whether it is
a result at all by everything that an engine may do instead of answering.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from router.bench.call import Client, body
from router.bench.messages import Address, Answers, Sample
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.scripts import silent
from tests.cases.kit.sse import DONE, SSE_HEADERS, content, event, finish, role, split_every, usage
from tests.support.leftovers import Errors

ROUTE = "/v1/chat/completions"
PAUSE = 0.02
TEXTS = [content(text) for text in ("The", " capital", " is", " Paris.")]
WHOLE = [role(), *TEXTS, finish(), usage(9), DONE]
Ask = Callable[..., Awaitable[Sample]]


@pytest.fixture
async def ask(a: FakeEngine, errors: Errors) -> AsyncIterator[Ask]:
    """Send one request to the engine, which answers in these pieces."""
    clients = []

    async def send(
        *pieces: bytes, headers: tuple[tuple[str, str], ...] = SSE_HEADERS, timeout: float = 5.0, **more: Any
    ) -> Sample:
        if pieces:

            async def script(conn: EngineConn, request: RawRequest) -> None:
                await conn.head(headers=headers)
                for piece in pieces:
                    await conn.chunk(piece)
                    await conn.pause(PAUSE)
                await conn.end()

            a.script = script
        address = Address("127.0.0.1", a.port, ROUTE, "fake")
        client = Client(address, timeout, time.monotonic)
        clients.append(client)
        return await client.ask(body(address, Answers(), "Hello", 16), **more)

    yield send
    for client in clients:
        client.close()


async def test_an_answer_event_by_event(ask: Ask) -> None:
    """Four pieces carry text: not the role, the finish, the usage or the end mark."""
    one = await ask(*WHOLE)
    assert one.problem is None
    assert (one.tokens, one.prompt_tokens, one.cached_tokens) == (9, 37, None)
    assert len(one.chunks) == len(TEXTS)
    assert one.first == one.chunks[0]
    # The role came a pause before the first text, and is no first token.
    assert one.first - one.started >= PAUSE
    assert one.started < one.first < one.chunks[-1] < one.ended


async def test_an_answer_in_one_piece(ask: Ask) -> None:
    one = await ask(b"".join(WHOLE))
    assert (one.problem, one.tokens, len(one.chunks)) == (None, 9, 1)
    assert one.first == one.chunks[0]


async def test_text_that_comes_with_the_end_is_counted(ask: Ask) -> None:
    one = await ask(role() + TEXTS[0], b"".join([*TEXTS[1:], finish(), usage(9), DONE]))
    assert (one.problem, one.tokens, len(one.chunks)) == (None, 9, 2)


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
async def test_pieces_that_are_cut_anywhere(ask: Ask, a: FakeEngine, size: int) -> None:
    """The network cuts where it likes; usage, end and what it is about come out the same."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        for piece in split_every(b"".join(WHOLE), size):
            await conn.chunk(piece)
        await conn.end()

    a.script = script
    one = await ask()
    assert (one.problem, one.tokens, one.prompt_tokens) == (None, 9, 37)


async def test_an_abort_that_is_cut_in_two_is_an_abort(ask: Ask) -> None:
    end = b"".join([finish("abort"), usage(3), DONE])
    at = end.index(b'"abort"') - 3
    assert (await ask(role(), TEXTS[0], end[:at], end[at:])).problem == "aborted by the server"


async def test_an_abort_in_another_spelling(ask: Ask) -> None:
    spaced = b'data: {"choices": [{"finish_reason": "abort"}]}\n\n'
    assert (await ask(*TEXTS, spaced, usage(3), DONE)).problem == "aborted by the server"


async def test_text_cannot_feign_an_end(ask: Ask) -> None:
    """Generated text with an abort, an error or a usage in it is text: inside JSON its quotes are escaped."""
    text = content('"finish_reason":"abort" {"error":{"code":503}} "usage":{"completion_tokens":7} [DONE]')
    one = await ask(role(), text, finish(), usage(9), DONE)
    assert (one.problem, one.tokens, len(one.chunks)) == (None, 9, 1)


async def test_cached_tokens(ask: Ask) -> None:
    told = {"prompt_tokens": 37, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 30}}
    one = await ask(role(), *TEXTS, finish(), event({"choices": [], "usage": told}), DONE)
    assert (one.tokens, one.cached_tokens) == (9, 30)


async def test_reasoning_is_text(ask: Ask) -> None:
    thought = event({"choices": [{"delta": {"reasoning_content": "Hm", "content": None}}]})
    assert len((await ask(role(), thought, *TEXTS, finish(), usage(9), DONE)).chunks) == 5


async def test_which_engine_answered(ask: Ask) -> None:
    one = await ask(*WHOLE, headers=(*SSE_HEADERS, ("x-router-path", "speculative")))
    assert one.path == "speculative"


async def test_the_first_text_is_told_at_once(ask: Ask, a: FakeEngine) -> None:
    told, rest = asyncio.Event(), asyncio.Event()

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(role())
        await conn.chunk(TEXTS[0])
        await rest.wait()
        await conn.chunk(finish() + usage(9) + DONE)
        await conn.end()

    a.script = script
    asking = asyncio.ensure_future(ask(on_first=told.set))
    await told.wait()
    rest.set()
    assert (await asking).tokens == 9


async def test_a_failed_request_has_no_tokens_but_a_reason(ask: Ask) -> None:
    one = await ask(role(), *TEXTS, usage(9))
    assert (one.problem, one.tokens) == ("no end mark", 0)


async def test_a_time_limit_is_a_failure_and_closes_the_connection(ask: Ask, a: FakeEngine) -> None:
    a.script = silent
    one = await ask(timeout=0.2)
    assert (one.problem, one.first) == ("timeout", None)
    await a.wait_closed(a.conns[-1], 2.0)


async def test_nobody_there(ask: Ask, a: FakeEngine) -> None:
    a.down()
    assert (await ask()).problem == "engine_unreachable"


async def test_a_connection_that_the_server_closed_meanwhile_is_no_failure(
    a: FakeEngine, errors: Errors
) -> None:
    """A server may end an idle connection in the moment in which a request goes out: it is sent again."""

    async def once(conn: EngineConn, request: RawRequest) -> None:
        if conn.served:
            conn.rst()
            return
        await conn.stream(WHOLE)

    a.script = once
    address = Address("127.0.0.1", a.port, ROUTE, "fake")
    client = Client(address, 5.0, time.monotonic)
    asked = body(address, Answers(), "Hello", 16)
    found = [await client.ask(asked) for _ in range(3)]
    client.close()
    assert [one.problem for one in found] == [None] * 3
    assert a.accepted == 3


async def test_what_is_asked(ask: Ask, a: FakeEngine) -> None:
    await ask(*WHOLE)
    (request,) = a.requests
    assert request.target == ROUTE
    assert json.loads(request.body) == {
        "model": "fake",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 16,
        "temperature": 0.0,
    }


def test_what_is_asked_at_the_other_route_and_at_a_fixed_length() -> None:
    address = Address("a", 1, "/v1/completions", "fake")
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    asked = json.loads(body(address, Answers(fixed=True), messages, 16))
    assert asked["prompt"] == "Be short.\n\nHi"
    assert asked["ignore_eos"] is True
    assert "messages" not in asked


async def test_the_key_is_shown(a: FakeEngine, errors: Errors) -> None:
    address = Address("127.0.0.1", a.port, ROUTE, "fake", "secret")
    client = Client(address, 5.0, time.monotonic)
    await client.ask(body(address, Answers(), "Hello", 16))
    client.close()
    assert a.requests[0].head.get("authorization") == "Bearer secret"
