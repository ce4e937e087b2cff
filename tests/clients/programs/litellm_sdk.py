"""litellm's SDK: completion and acompletion, whole and streamed."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
from common import MESSAGES, SECONDS, TOOLS, Json, Target, idle_engine, merged, observed, report, targets


def run(target: Target) -> Json:
    common: Json = {
        "model": f"openai/{target.model}",
        "api_base": f"{target.url}/v1",
        "api_key": "unused",
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": 16,
        "max_retries": 0,
        "num_retries": 0,
        "timeout": SECONDS,
        "extra_body": {"ignore_eos": True},
    }

    def whole(**options: Any) -> Any:
        return litellm.completion(**common | options).model_dump()

    def stream(**options: Any) -> Any:
        return merged([chunk.model_dump() for chunk in litellm.completion(**common | options, stream=True)])

    async def left() -> Json:
        """Cancelled in mid-stream, as by a web framework whose own client went away."""
        begun = asyncio.Event()

        async def request() -> None:
            answer: Any = await litellm.acompletion(**common | {"max_tokens": target.long}, stream=True)
            async for _ in answer:
                begun.set()

        task = asyncio.create_task(request())
        await begun.wait()
        task.cancel()
        await asyncio.wait({task})
        return await asyncio.to_thread(idle_engine, target)

    return {
        "whole": observed(whole),
        "stream": observed(stream),
        "stream with usage": observed(lambda: stream(stream_options={"include_usage": True})),
        "two choices": observed(lambda: whole(n=2)),
        "tools": observed(lambda: whole(tools=TOOLS)),
        "streamed tools": observed(lambda: stream(tools=TOOLS)),
        "bad value": observed(lambda: whole(top_p=7)),
        "bad value, streamed": observed(lambda: stream(top_p=7)),
        "error as first event": observed(lambda: stream(extra_body={"regex": "(["})),
        "abort": observed(lambda: asyncio.run(left())),
    }


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    report({target.name: run(target) for target in targets()})
