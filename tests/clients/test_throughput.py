"""The router's tokens per second against what the engine generated; clients do not ask for usage."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from statistics import mean

import openai
import pytest

from router.core.words import Path
from tests.cases.kit.client import ask, request_bytes
from tests.cases.kit.metrics import parse_metrics
from tests.clients.stage import Stage

STREAMS, TOKENS = 4, 150
# The rate is over the last five seconds: that long a load must have been steady before a sample counts.
WINDOW, SAMPLED = 6.0, 9.0
WITHIN = 0.10


@dataclass(slots=True)
class Load:
    """Streams one after the other, until told to stop."""

    client: openai.AsyncOpenAI
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0

    async def run(self) -> None:
        """One worker."""
        while not self.stopped.is_set():
            stream = await self.client.chat.completions.create(
                model="sim",
                messages=[{"role": "user", "content": f"question {self.streams}"}],
                max_tokens=TOKENS,
                stream=True,
                extra_body={"ignore_eos": True},
            )
            async for chunk in stream:
                assert chunk.usage is None
            self.streams += 1


async def counted(stage: Stage, path: Path, name: str, **labels: str) -> float:
    """A counter of the engine's own."""
    port = int(stage.direct(path).rsplit(":", 1)[1])
    page = parse_metrics((await ask(port, request_bytes("GET", "/metrics"), 10.0)).body.decode())
    wanted = labels.items()
    return sum(
        value for (key, have), value in page.series.items() if key == name and wanted <= dict(have).items()
    )


async def decoded(stage: Stage, path: Path) -> float:
    """Tokens that the engine decoded so far, those of running requests included."""
    return await counted(stage, path, "sglang:realtime_tokens_total", mode="decode")


async def finished(stage: Stage, path: Path) -> float:
    """Tokens of all requests that ended."""
    return await counted(stage, path, "sglang:generation_tokens_total")


@pytest.mark.parametrize("path", list(Path), ids=str)
async def test_tokens_per_second_without_usage(simulated: Stage, path: Path) -> None:
    stage, router = simulated, simulated.routers[path]
    decoded_before, finished_before = await decoded(stage, path), await finished(stage, path)
    async with openai.AsyncOpenAI(
        base_url=f"{stage.routed(path)}/v1", api_key="unused", max_retries=0, timeout=60
    ) as client:
        load = Load(client)
        workers = [asyncio.create_task(load.run()) for _ in range(STREAMS)]
        truth, shown = await sampled(stage, path)
        load.stopped.set()
        await asyncio.gather(*workers)
    generated = await finished(stage, path) - finished_before
    assert generated == load.streams * TOKENS
    # A request's first token comes with its prompt.
    assert await decoded(stage, path) - decoded_before == pytest.approx(generated - load.streams, rel=0.01)
    assert shown == pytest.approx(truth, rel=WITHIN)
    assert (await router.metrics()).sum("tokens_total", path=path.value, source="estimate") > 0


async def sampled(stage: Stage, path: Path) -> tuple[float, float]:
    """Tokens per second: what the engine counted, and the mean of what the router said meanwhile."""
    await asyncio.sleep(1.0)  # into the load
    began, before = time.monotonic(), await decoded(stage, path)
    await asyncio.sleep(WINDOW)
    shown = []
    while time.monotonic() - began < WINDOW + SAMPLED:
        metrics = await stage.routers[path].metrics()
        shown.append(metrics.sum("throughput_tokens_per_second", path=path.value))
        await asyncio.sleep(0.5)
    return (await decoded(stage, path) - before) / (time.monotonic() - began), mean(shown)
