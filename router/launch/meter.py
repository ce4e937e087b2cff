"""Looking at GPU memory over time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from router.launch.memory import Stillness, used_on
from router.launch.nvml import GpuReader
from router.launch.plan import GpuMemory

PERIOD = 0.5
"""Seconds between two looks."""


class Meter:
    """A reader with a clock.

    Args:
        clock: seconds that only ever rise.
        sleep: as `asyncio.sleep`.
    """

    def __init__(
        self, reader: GpuReader, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._sleep = sleep

    async def read(self) -> tuple[GpuMemory, ...]:
        """All GPUs now. The driver may take its time, so it is asked in a thread."""
        return await asyncio.to_thread(self._reader.read)

    async def still(self, gpus: Collection[int], seconds: float, limit: float) -> bool:
        """Wait until memory in use stands still for some seconds; False if it did not within the limit."""
        stillness, began = Stillness(seconds), self._clock()
        while self._clock() - began < limit:
            if stillness.add(self._clock(), used_on(await self.read(), gpus)):
                return True
            await self._sleep(min(PERIOD, seconds / 2))
        return False
