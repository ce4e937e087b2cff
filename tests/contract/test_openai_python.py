"""Unmodified openai-python through the router."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.contract.backends import Pair
from tests.contract.occupy import LONG, idle
from tests.contract.test_chat_stream import TOOLS
from tests.sglang_cpu.flags import MODEL
from tests.support.running import Running, gather_all

MESSAGES: Any = [{"role": "user", "content": "hello world"}]
GREEDY: Any = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "extra_body": {"ignore_eos": True}}


@pytest.fixture
async def client(router: Running) -> AsyncIterator[openai.AsyncOpenAI]:
    """An application's client."""
    async with openai.AsyncOpenAI(base_url=router.url, api_key="sk-unused", max_retries=0, timeout=60) as own:
        yield own


async def test_streamed_and_whole_are_the_same(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(**GREEDY, max_tokens=20)
    stream = await client.chat.completions.create(
        **GREEDY, max_tokens=20, stream=True, stream_options={"include_usage": True}
    )
    text, usage = "", None
    async for chunk in stream:
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content
    assert usage is not None
    assert whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens == 20


async def test_two_choices_logprobs_and_tools(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        **GREEDY, max_tokens=4, n=2, logprobs=True, top_logprobs=2, tools=TOOLS
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert choice.logprobs is not None
        assert len(choice.logprobs.content or []) == 4
    plain = await client.chat.completions.create(**GREEDY, max_tokens=4)
    assert answer.usage is not None
    assert plain.usage is not None
    assert answer.usage.prompt_tokens > plain.usage.prompt_tokens


async def test_completions(client: openai.AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model=MODEL, prompt="hello", max_tokens=7, stream=True, stream_options={"include_usage": True}
    )
    assert [chunk.usage.completion_tokens async for chunk in stream if chunk.usage]


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [MODEL]


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_of_the_engine(client: openai.AsyncOpenAI, *, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="top_p must be in"):
        await client.chat.completions.create(**GREEDY, top_p=7, stream=stream)
    with pytest.raises(openai.BadRequestError, match="max_completion_tokens is too large"):
        await client.chat.completions.create(**GREEDY, max_tokens=100_000, stream=stream)


async def test_errors_inside_a_stream(client: openai.AsyncOpenAI) -> None:
    """A grammar that does not compile: 200, and the error as the first event."""
    body = {**GREEDY, "extra_body": {"regex": "(["}}
    with pytest.raises(openai.BadRequestError, match="regex grammar"):
        await client.chat.completions.create(**body, max_tokens=4)
    with pytest.raises(openai.APIError, match="regex grammar"):
        async for _ in await client.chat.completions.create(**body, max_tokens=4, stream=True):
            pass


async def test_other_errors(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="embedding model"):
        await client.embeddings.create(model=MODEL, input="text")
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nope")
    with pytest.raises(openai.NotFoundError):
        await client.images.generate(model=MODEL, prompt="a cat")


async def test_a_closed_stream_stops_the_engine(client: openai.AsyncOpenAI, pair: Pair) -> None:
    stream = await client.chat.completions.create(**GREEDY, max_tokens=LONG, stream=True)
    async for _ in stream:
        break
    await stream.close()
    await idle(pair.speculative, 20.0)


async def test_many_at_once(client: openai.AsyncOpenAI) -> None:
    answers = await gather_all(*(client.chat.completions.create(**GREEDY, max_tokens=10) for _ in range(12)))
    texts = {answer.choices[0].message.content for answer in answers}
    # Batches of another shape may tip a near tie of the real model.
    assert len(texts) <= 3
