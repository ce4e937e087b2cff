"""The load that one client process makes: slots that ask again and again, or requests that just come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

from router.bench.call import Client, Prompt, body
from router.bench.messages import Load, Sample, Status

# A slot whose request failed does not hammer.
PAUSE_AFTER_FAILURE = 0.2
# Slots begin one after the other, over so many seconds at most.
RAMP = 1.0
RAMP_STEP = 0.005


class Maker:
    """Makes a load until `stop`. Make it inside a running event loop.

    Args:
        load: what to do.
        clock: monotonic seconds.
        cpu: seconds of processor time this process has used.
    """

    def __init__(self, load: Load, clock: Callable[[], float], cpu: Callable[[], float]) -> None:
        self._load = load
        self._clock = clock
        self._cpu = cpu
        self._client = Client(load.address, load.answers.timeout, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._samples: list[Sample] = []
        self._warm = 0
        self._failed = 0

    def start(self) -> None:
        """Begin to send."""
        if self._load.rate > 0:
            self._spawn(self._arrivals())
        for slot in range(self._load.slots):
            self._spawn(self._slot(slot))

    def stop(self) -> None:
        """Send nothing new."""
        self._stopping.set()

    def cut(self) -> None:
        """Close everything that is open."""
        self.stop()
        self._client.close()
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> list[Sample]:
        """Wait until all requests have ended; what was measured."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._client.close()
        return self._samples

    def status(self) -> Status:
        """How it is coming on."""
        done = len(self._samples)
        return Status(self._clock(), self._cpu(), self._client.chunks, self._warm, done, self._failed)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _slot(self, slot: int) -> None:
        await self._pause(min(slot * RAMP_STEP, RAMP * slot / self._load.slots))
        turn = 0
        while not self._stopping.is_set():
            sample = await self._ask(f"{slot}/{turn}", first=turn == 0)
            turn += 1
            if sample.problem is not None:
                await self._pause(PAUSE_AFTER_FAILURE)

    async def _arrivals(self) -> None:
        """A Poisson process."""
        rng = Random(f"{self._load.seed}/arrivals")
        due = self._clock()
        number = 0
        while not self._stopping.is_set():
            due += rng.expovariate(self._load.rate)
            await self._pause(due - self._clock())
            if not self._stopping.is_set():
                self._spawn(self._one(f"arrival/{number}"))
            number += 1

    async def _one(self, name: str) -> None:
        await self._ask(name)

    async def _ask(self, name: str, *, first: bool = False) -> Sample:
        """One request; the name decides what it asks."""
        load, rng = self._load, Random(f"{self._load.seed}/{name}")
        prompt: Prompt = load.prompts[int(rng.random() * len(load.prompts))]
        most = load.answers.max_tokens
        if first and load.answers.fixed:
            # Else slots of equal length would end together for ever, and their prompts come in bursts.
            most = rng.randint(1, most)
        sample = await self._client.ask(
            body(load.address, load.answers, prompt, most), self._first_seen if first else _ignore
        )
        self._samples.append(sample)
        self._failed += sample.problem is not None
        return sample

    def _first_seen(self) -> None:
        self._warm += 1

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not beyond a stop."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                pass


def _ignore() -> None:
    """Nobody waits for this first token."""
