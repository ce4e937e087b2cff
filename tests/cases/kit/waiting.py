"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(
    condition: Callable[[], object], within: float, what: str = "condition", every: float = 0.01
) -> float:
    """Wait until the condition is truthy; returns the seconds waited, fails after `within` seconds."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited <= within, f"not within {within} s: {what}"
        await asyncio.sleep(every)
    return time.monotonic() - started
