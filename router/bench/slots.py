"""The load that one client process makes: slots that ask again and again, or requests that just come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random

from router.bench.call import Client, Prompt, body
from router.bench.messages import Load, Sample

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

    Attributes:
        open, failed: see `Status`.
    """

    def __init__(self, load: Load, clock: Callable[[], float]) -> None:
        self._load = load
        self._clock = clock
        self._client = Client(load.address, load.answers.timeout, clock)
        self._most = load.answers.max_tokens
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._samples: list[Sample] = []
        self._warm: set[int] = set()
        self.open = 0
        self.failed = 0

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

    @property
    def chunks(self) -> int:
        """Pieces of answers that have arrived."""
        return self._client.chunks

    @property
    def warm(self) -> int:
        """See `Status`."""
        return len(self._warm)

    @property
    def done(self) -> int:
        """Requests that have ended."""
        return len(self._samples)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _slot(self, slot: int) -> None:
        await self._pause(min(slot * RAMP_STEP, RAMP * slot / self._load.slots))
        turn = 0
        while not self._stopping.is_set():
            # Prompts go round, so that none comes again before all have come.
            prompt = self._prompt(slot + turn * self._load.slots)
            sample = await self._ask(prompt, self._first_most(slot) if turn == 0 else self._most, slot)
            self._warm.add(slot)
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
                self._spawn(self._arrival(number))
            number += 1

    async def _arrival(self, number: int) -> None:
        await self._ask(self._prompt(number), self._most)
        if number == 0:
            self._warm.add(number)

    async def _ask(self, prompt: Prompt, most: int, slot: int | None = None) -> Sample:
        load = self._load
        sent = body(load.address, load.answers, prompt, most)
        self.open += 1
        try:
            sample = await self._client.ask(sent, _ignore if slot is None else partial(self._warm.add, slot))
        finally:
            self.open -= 1
        self._samples.append(sample)
        self.failed += sample.problem is not None
        return sample

    def _prompt(self, number: int) -> Prompt:
        return self._load.prompts[number % len(self._load.prompts)]

    def _first_most(self, slot: int) -> int:
        """Longest first answer: else slots would end together for ever, and their prompts come in bursts."""
        return Random(f"{self._load.seed}/{slot}").randint(1, self._most)

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not beyond a stop."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                pass


def _ignore() -> None:
    """Nobody waits for this first text."""
