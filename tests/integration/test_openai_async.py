"""The unmodified OpenAI client for Python, asynchronous: choices, tools, usage, concurrency, request ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from router.sim.server import SimulatedPair
from tests.integration.conftest import RouterFactory
from tests.support.running import Running, gather_all

MESSAGES: Any = [{"role": "user", "content": "Say something."}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]


@pytest.fixture
async def router(sims: SimulatedPair, start: RouterFactory) -> Running:
    """In front of the simulated engines, with a switch within reach of a few requests."""
    return await start(sims.speculative, sims.baseline, policy={"high": 8, "low": 2})


@pytest.fixture
async def client(router: Running) -> AsyncIterator[openai.AsyncOpenAI]:
    """An application's client."""
    async with openai.AsyncOpenAI(
        base_url=router.url, api_key="sk-unused", max_retries=0, timeout=10
    ) as client:
        yield client


async def stream_text(client: openai.AsyncOpenAI, **options: Any) -> str:
    """The text of a streamed chat answer."""
    stream = await client.chat.completions.create(model="sim", messages=MESSAGES, stream=True, **options)
    return "".join(
        [choice.delta.content or "" async for chunk in stream for choice in chunk.choices if choice.delta]
    )


async def test_streamed_and_whole_are_the_same(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model="sim", messages=MESSAGES, temperature=0, max_tokens=30)
    assert await stream_text(client, temperature=0, max_tokens=30) == whole.choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
async def test_two_choices(client: openai.AsyncOpenAI, *, stream: bool) -> None:
    texts = {0: "", 1: ""}
    if stream:
        async for chunk in await client.chat.completions.create(
            model="sim", messages=MESSAGES, n=2, max_tokens=8, stream=True
        ):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
    else:
        answer = await client.chat.completions.create(model="sim", messages=MESSAGES, n=2, max_tokens=8)
        texts = {choice.index: choice.message.content or "" for choice in answer.choices}
    assert all(texts.values())
    assert texts[0] != texts[1]


async def test_tools_reach_the_engine(client: openai.AsyncOpenAI) -> None:
    """The simulated model calls no tool, but the tools count as prompt tokens: so they arrived."""
    plain = await client.chat.completions.create(model="sim", messages=MESSAGES, max_tokens=4)
    tooled = await client.chat.completions.create(model="sim", messages=MESSAGES, max_tokens=4, tools=TOOLS)
    assert plain.usage is not None
    assert tooled.usage is not None
    assert tooled.usage.prompt_tokens > plain.usage.prompt_tokens + 10


async def test_completion_stream_with_usage(client: openai.AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model="sim", prompt="Once", max_tokens=9, stream=True, stream_options={"include_usage": True}
    )
    usages = [chunk.usage.completion_tokens async for chunk in stream if chunk.usage]
    assert usages == [9]


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["sim"]
    assert (await client.models.retrieve("sim")).id == "sim"


async def test_many_at_once(client: openai.AsyncOpenAI, router: Running) -> None:
    """Forty streams over both paths: same greedy text for all, whichever engine spoke."""
    options: Any = {"temperature": 0, "max_tokens": 40, "stream_options": {"include_usage": True}}
    texts = await gather_all(*(stream_text(client, **options) for _ in range(40)))
    assert len(set(texts)) == 1
    metrics = await router.metrics()
    assert metrics.sum("requests_total", outcome="ok") == 40
    assert metrics.sum("requests_total", outcome="ok", path="baseline") > 0
    assert metrics.sum("tokens_total", kind="completion", source="usage") == 40 * 40


async def test_request_id_is_kept(client: openai.AsyncOpenAI) -> None:
    """`_request_id` is what an application logs and an operator searches for."""
    answer = await client.chat.completions.create(
        model="sim", messages=MESSAGES, max_tokens=2, extra_headers={"x-request-id": "my-own.id/1"}
    )
    assert answer._request_id == "my-own.id/1"
    other = await client.chat.completions.create(
        model="sim", messages=MESSAGES, max_tokens=2, extra_headers={"x-request-id": "not sane: \t*"}
    )
    assert other._request_id
    assert other._request_id != "not sane: \t*"
