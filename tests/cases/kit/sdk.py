"""Unmodified OpenAI SDKs as clients: what an application makes of the router's bytes."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import openai
import pytest

from .sse import MODEL

Sdk = Literal["python", "node"]
SDKS: tuple[Sdk, ...] = ("python", "node")
NODE_FOLDER = Path(__file__).parent.parent / "node"


@dataclass(frozen=True, slots=True)
class SdkAnswer:
    """`error` is the name of the exception that the SDK raised, `status` its HTTP status."""

    text: str
    finish: str | None
    error: str | None
    status: int | None


async def sdk_chat(sdk: Sdk, port: int, *, stream: bool) -> SdkAnswer:
    """One chat request, without the SDK's own retries. Skips the test where the SDK is not installed."""
    url = f"http://127.0.0.1:{port}/v1"
    return await (_python_chat(url, stream=stream) if sdk == "python" else _node_chat(url, stream=stream))


async def _python_chat(url: str, *, stream: bool) -> SdkAnswer:
    texts: list[str] = []
    finish: str | None = None
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-test", max_retries=0, timeout=20) as client:
        try:
            if stream:
                async for chunk in await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True
                ):
                    for choice in chunk.choices:
                        texts.append(choice.delta.content or "")
                        finish = choice.finish_reason or finish
            else:
                answer = await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "hello"}]
                )
                texts, finish = [answer.choices[0].message.content or ""], answer.choices[0].finish_reason
        except Exception as problem:  # whatever an application would see
            return SdkAnswer(
                "".join(texts), finish, type(problem).__name__, getattr(problem, "status_code", None)
            )
    return SdkAnswer("".join(texts), finish, None, None)


async def _node_chat(url: str, *, stream: bool) -> SdkAnswer:
    node = shutil.which("node")
    if node is None or not (NODE_FOLDER / "node_modules" / "openai").is_dir():
        pytest.skip("openai-node is not installed: npm install --ignore-scripts in tests/cases/node")
    process = await asyncio.create_subprocess_exec(
        node,
        str(NODE_FOLDER / "chat.mjs"),
        url,
        "stream" if stream else "whole",
        stdout=asyncio.subprocess.PIPE,
    )
    stdout, _ = await asyncio.wait_for(process.communicate(), 30)
    seen = json.loads(stdout)
    return SdkAnswer("".join(seen["texts"]), seen["finish"], seen["error"], seen["status"])
