"""Errors as the OpenAI client for Python raises them: the engine's own, and the router's."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from router.sim.server import SimulatedPair
from tests.integration.conftest import RouterFactory
from tests.support.running import Running

MESSAGES: Any = [{"role": "user", "content": "Say something."}]


@asynccontextmanager
async def client_of(
    router: Running, key: str = "sk-unused", headers: dict[str, str] | None = None
) -> AsyncIterator[openai.AsyncOpenAI]:
    """An application's client."""
    async with openai.AsyncOpenAI(
        base_url=router.url, api_key=key, max_retries=0, timeout=10, default_headers=headers
    ) as client:
        yield client


@pytest.fixture
async def router(sims: SimulatedPair, start: RouterFactory) -> Running:
    """In front of the simulated engines."""
    return await start(sims.speculative, sims.baseline)


@pytest.mark.parametrize("stream", [False, True])
async def test_engine_400_is_a_bad_request(router: Running, *, stream: bool) -> None:
    async with client_of(router) as client:
        with pytest.raises(openai.BadRequestError, match="top_p must be in"):
            await client.chat.completions.create(model="sim", messages=MESSAGES, top_p=7, stream=stream)
        with pytest.raises(openai.BadRequestError, match="Field required"):
            await client.post("/chat/completions", body={"model": "sim"}, cast_to=object)
    metrics = await router.metrics()
    assert metrics.sum("requests_total", outcome="ok") == 2, "a refusal is an answer"
    assert metrics.sum("retries_total") == 0
    assert metrics.sum("breaker_state") == 0


async def test_embeddings_are_refused_by_the_engine(router: Running) -> None:
    async with client_of(router) as client:
        with pytest.raises(openai.BadRequestError, match="does not appear to be an embedding model"):
            await client.embeddings.create(model="sim", input="text")


async def test_unknown_routes_and_models_are_not_found(router: Running) -> None:
    async with client_of(router) as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.images.generate(model="sim", prompt="a cat")
        assert caught.value.body == {
            "message": "Unknown route.",
            "type": "invalid_request_error",
            "param": None,
            "code": "unknown_route",
        }
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.models.retrieve("other")


async def test_keys(sims: SimulatedPair, start: RouterFactory) -> None:
    """Clear and hashed keys; both ways to show one; the client's key does not reach the engine."""
    digest = "sha256:" + hashlib.sha256(b"sk-hashed").hexdigest()
    router = await start(sims.speculative, sims.baseline, server={"api_keys": ["sk-clear", digest]})
    for key in ("sk-clear", "sk-hashed"):
        async with client_of(router, key) as client:
            await client.chat.completions.create(model="sim", messages=MESSAGES, max_tokens=2)
            assert [model.id async for model in client.models.list()] == ["sim"]
    async with client_of(router, "sk-wrong") as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.chat.completions.create(model="sim", messages=MESSAGES)
        assert caught.value.code == "invalid_api_key"
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
    async with client_of(router, "sk-wrong", headers={"x-api-key": "sk-clear"}) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="sim", messages=MESSAGES)
    metrics = await router.metrics()
    assert metrics.sum("rejected_total", reason="auth") == 3, "two at the door of a chat, one of a model list"
    assert metrics.sum("requests_total", outcome="ok") == 2


async def test_engines_with_keys_of_their_own(start: RouterFactory) -> None:
    async with SimulatedPair(time_scale=50, health_seconds=0.05, api_key="sk-engine") as sims:
        pair = {
            path: {"url": engine.url, "api_key": "sk-engine"}
            for path, engine in (("speculative", sims.speculative), ("baseline", sims.baseline))
        }
        router = await start(sims.speculative, sims.baseline, pairs=[pair])
        async with client_of(router, "sk-of-a-client") as client:
            answer = await client.chat.completions.create(model="sim", messages=MESSAGES, max_tokens=2)
            assert answer.choices[0].message.content
            assert [model.id async for model in client.models.list()] == ["sim"]
        await router.quiet()


async def test_no_engine_is_a_server_error(router: Running, sims: SimulatedPair) -> None:
    await sims.speculative.stop()
    await sims.baseline.stop()
    async with client_of(router) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(model="sim", messages=MESSAGES)
    assert caught.value.status_code == 503
    assert int(caught.value.response.headers["retry-after"]) >= 1
