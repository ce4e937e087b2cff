"""Bringing a router back to its first state between two tests that make engines fail."""

from __future__ import annotations

import asyncio
import time

from .client import ask, good
from .engine import FakeEngine
from .router import RouterProcess

OPEN = 1


async def recover(router: RouterProcess, within: float = 10.0) -> None:
    """Ask until the speculative path is active, its breaker closed and the other's not open.

    Engines must answer again. A half-open baseline stays so until there is a use for it.
    """
    deadline = time.monotonic() + within
    while True:
        metrics = await router.metrics()
        broken = (
            metrics.sum("breaker_state", path="speculative"),
            metrics.sum("breaker_state", path="baseline") % 2,
        )
        if metrics.active_path() == "speculative" and not any(broken):
            return
        assert time.monotonic() < deadline, f"not recovered:\n{router.log[-3000:]}"
        await ask(router.data_port, good())
        await asyncio.sleep(0.05)


async def drop_pooled(*engines: FakeEngine) -> None:
    """Close every idle connection, so that the router's next requests come over fresh ones."""
    for engine in engines:
        engine.reset_connections()
    await asyncio.sleep(0.05)
