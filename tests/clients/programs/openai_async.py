"""openai-python, its asynchronous client; a stream and a whole answer are also abandoned by cancelling."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from common import (
    MESSAGES,
    SECONDS,
    Json,
    Target,
    busy_engine,
    failure,
    idle_engine,
    masked,
    merged,
    openai_body,
    openai_cases,
    report,
    targets,
)


async def run(target: Target) -> Json:
    seen: Json = {}
    async with connected(target) as client:
        for name, case in openai_cases().items():
            try:
                seen[name] = masked(await ask(client, case, target))
            except Exception as error:  # whatever an application would see
                seen[name] = failure(error)
    # On a connection of its own: an engine may close the last one behind an error.
    async with connected(target) as client:
        seen["abort"] = await abort(client, target, stream=True)
        seen["abort of a whole answer"] = await abort(client, target, stream=False)
    return seen


def connected(target: Target) -> openai.AsyncOpenAI:
    """A client that does not repeat what fails."""
    return openai.AsyncOpenAI(base_url=f"{target.url}/v1", api_key="unused", max_retries=0, timeout=SECONDS)


async def ask(client: openai.AsyncOpenAI, case: Json, target: Target) -> Any:
    body, extra = openai_body(case, target.model)
    if case["call"] == "models":
        return [model.model_dump() async for model in client.models.list()]
    if case["call"] == "model":
        return (await client.models.retrieve(case["id"])).model_dump()
    methods: Json = {
        "chat": client.chat.completions.create,
        "completions": client.completions.create,
        "embeddings": client.embeddings.create,
        "responses": client.responses.create,
    }
    answer = await methods[case["call"]](**body, extra_body=extra or None)
    if body.get("stream"):
        return merged([chunk.model_dump() async for chunk in answer])
    return answer.model_dump()


async def abort(client: openai.AsyncOpenAI, target: Target, *, stream: bool) -> Json:
    """Cancelled once the engine is at work on it."""
    begun = asyncio.Event()

    async def request() -> None:
        answer: Any = await client.chat.completions.create(
            model=target.model,
            messages=MESSAGES,
            max_tokens=target.long,
            stream=stream,
            extra_body={"ignore_eos": True},
        )
        if stream:
            async for _ in answer:
                begun.set()

    task = asyncio.create_task(request())
    if stream:
        await begun.wait()
    else:
        await asyncio.to_thread(busy_engine, target)
    task.cancel()
    await asyncio.wait({task})
    return {"cancelled": task.cancelled()} | await asyncio.to_thread(idle_engine, target)


async def main() -> None:
    report({target.name: await run(target) for target in targets()})


if __name__ == "__main__":
    asyncio.run(main())
