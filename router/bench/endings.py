"""How tasks and processes end."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def gone(process: asyncio.subprocess.Process, within: float) -> None:
    """Wait until a process that was told to leave has done so; after `within` seconds it is killed."""
    try:
        async with asyncio.timeout(within):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
