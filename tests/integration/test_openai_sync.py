"""The unmodified OpenAI client for Python, blocking, against the router in front of simulated engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest

from router.sim.server import SimulatedPair
from tests.integration.conftest import RouterFactory
from tests.support.running import Running

MESSAGES = [{"role": "user", "content": "Say something."}]


@pytest.fixture
async def router(sims: SimulatedPair, start: RouterFactory) -> Running:
    """In front of the simulated engines."""
    return await start(sims.speculative, sims.baseline)


@pytest.fixture
async def client(router: Running) -> AsyncIterator[openai.OpenAI]:
    """An application's client; its calls block, so tests run them in a thread."""
    client = openai.OpenAI(base_url=router.url, api_key="sk-unused", max_retries=0, timeout=10)
    yield client
    client.close()


async def test_chat_answer(client: openai.OpenAI) -> None:
    answer = await asyncio.to_thread(
        client.chat.completions.create, model="sim", messages=MESSAGES, max_tokens=12
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12


async def test_chat_stream_with_usage(client: openai.OpenAI) -> None:
    def read() -> tuple[str, list[int]]:
        text, usages = "", []
        with client.chat.completions.create(
            model="sim",
            messages=MESSAGES,
            max_tokens=20,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        ) as stream:
            for chunk in stream:
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
                usages += [chunk.usage.completion_tokens] if chunk.usage else []
        return text, usages

    text, usages = await asyncio.to_thread(read)
    whole = await asyncio.to_thread(
        client.chat.completions.create, model="sim", messages=MESSAGES, max_tokens=20, temperature=0
    )
    assert text == whole.choices[0].message.content
    assert usages == [20]


async def test_stream_left_early(client: openai.OpenAI, router: Running) -> None:
    """Leaving the `with` block closes the connection; the rest is the fixture's check."""

    def read() -> None:
        with client.chat.completions.create(
            model="sim", messages=MESSAGES, max_tokens=5000, stream=True, extra_body={"ignore_eos": True}
        ) as stream:
            next(iter(stream))

    await asyncio.to_thread(read)
    await router.quiet()
    assert router.ledger.closed["cancelled"] == 1


async def test_completion_and_models(client: openai.OpenAI) -> None:
    completion = await asyncio.to_thread(client.completions.create, model="sim", prompt="Once", max_tokens=5)
    assert completion.choices[0].text
    models = await asyncio.to_thread(lambda: [model.id for model in client.models.list()])
    assert models == ["sim"]
    assert (await asyncio.to_thread(client.models.retrieve, "sim")).id == "sim"
