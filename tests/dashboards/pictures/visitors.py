"""Besides the demo's patient users: some that leave, and some that ask wrongly."""

from __future__ import annotations

import asyncio

from tests.cases.kit.client import RawClient, ask, good, post

EVERY = 3.0
STAY = 0.5


async def visit(port: int) -> None:
    """Until cancelled."""
    while True:
        await ask(port, post(b"no JSON"))
        async with await RawClient.connect(port) as client:
            await client.request(good(max_tokens=400, ignore_eos=True))
            await asyncio.sleep(STAY)
        await asyncio.sleep(EVERY)
