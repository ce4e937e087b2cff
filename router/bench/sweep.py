"""A sweep: cells one after the other, and what can be kept when it is cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from router.bench.cell import Pace, Seen, measure
from router.bench.crew import Crew
from router.bench.endings import ended
from router.bench.messages import Address, Answers, Load
from router.bench.prompts import PromptSet
from router.bench.watch import Told, Watch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """One cell to come: requests in flight, or requests per second if `rate` is above 0; `repeat` from 0."""

    concurrency: int
    rate: float
    prompts: PromptSet
    repeat: int = 0

    @property
    def name(self) -> str:
        """For people."""
        load = f"{self.rate:g}/s" if self.rate else f"{self.concurrency} in flight"
        return f"{load}, {self.prompts.group}" + (f", repeat {self.repeat + 1}" if self.repeat else "")

    def load(self, address: Address, answers: Answers, seed: int) -> Load:
        """The load to make. The same cell asks every server the same."""
        drawn = f"{seed}/{self.prompts.group}/{self.concurrency}/{self.rate:g}/{self.repeat}"
        prompts = self.prompts.of_cell(drawn, self.concurrency)
        return Load(address, prompts, answers, drawn, 0 if self.rate else self.concurrency, self.rate)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was measured: what was planned, what came of it, what the server said meanwhile."""

    plan: Plan
    seen: Seen
    told: Told

    @property
    def bad(self) -> bool:
        """Whether its figures must not be used."""
        return bool(self.seen.problems) or not self.seen.figures.good


def plans(
    concurrencies: Sequence[int], rates: Sequence[float], sets: Sequence[PromptSet], repeats: int
) -> list[Plan]:
    """All cells, repeats outermost, so that what drifts does not look like an effect of the load."""
    loads = [(n, 0.0) for n in concurrencies] + [(0, rate) for rate in rates]
    return [
        Plan(n, rate, prompts, repeat) for repeat in range(repeats) for prompts in sets for n, rate in loads
    ]


async def sweep(
    crew: Crew,
    cells: Iterable[Plan],
    to_load: Callable[[Plan], Load],
    pace: Pace,
    clock: Callable[[], float],
    watch: Watch | None,
    on_cell: Callable[[Cell], None],
    stopping: asyncio.Event,
) -> None:
    """Measure the cells until all are done or `stopping` is set; a cell that was cut short is left out.

    Args:
        to_load: what a cell asks of the server.
        watch: asks the server about itself meanwhile; None: nobody does.
        on_cell: told of each cell.

    Raises:
        ClientDied: a client process ended by itself.
    """
    for plan in cells:
        watching = asyncio.create_task(watch.run()) if watch else None
        try:
            seen = await unless(stopping, measure(crew, to_load(plan), pace, clock))
        finally:
            if watching:
                await ended(watching)
        if seen is None:
            return
        told = watch.told(seen.window.begin, seen.window.end) if watch else Told()
        on_cell(Cell(plan, seen, told))


async def unless(stopping: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """What the work gives; None if `stopping` was set before, and then the work has been cancelled."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        return None
    finally:
        working.cancel()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(working, waiting, return_exceptions=True)
