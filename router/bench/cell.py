"""One cell: a load is built up, watched until it stands, measured, and let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from router.bench.crew import Crew, Running
from router.bench.figures import Figures, Window, figures
from router.bench.messages import Load, Sample, Status

# A first visit to a batch size may stall for seconds (kernels are built): silence of so many seconds while
# requests are open begins the warm-up anew, but for so long at most.
SILENCE = 1.0
LONGEST_WARM_UP = 60.0
# A window shorter than a request would see too few prompts, so it lasts until as many requests have ended as
# are held in flight; but so many times its wanted length at most.
LONGEST_WINDOW = 6.0
# A client process that computes for so much of the time is what is measured.
CLIENT_LIMIT = 0.85
# An open loop whose second half holds so many times more requests than the first does not stand.
GROWTH = 1.5
GROWTH_LEAST = 5


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a cell is measured.

    Attributes:
        seconds: of the window, at least.
        warm_up: seconds of undisturbed answers before it, once each slot has had a first token.
    """

    seconds: float = 10.0
    warm_up: float = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a cell.

    Attributes:
        figures: see `Figures`.
        window: when it was measured.
        client_busy: share of the window in which the busiest client process computed.
        notes: what a reader should know.
        problems: why it must not be used, but for failures.
    """

    figures: Figures
    window: Window
    client_busy: float
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Held:
    """A load in progress; `crew.begin` made it, `finish` ends it.

    Args:
        running: the load at the client processes.
        load: what it is.
        clock: monotonic seconds.
    """

    def __init__(self, running: Running, load: Load, clock: Callable[[], float]) -> None:
        self._running = running
        self._load = load
        self._clock = clock
        self._busy = 0.0
        self._settled = True

    async def warm(self, seconds: float) -> None:
        """Wait until it stands: every slot has seen a token, and `seconds` have passed since, undisturbed."""
        began = calm_since = last_chunk = self._clock()
        chunks = -1
        while True:
            statuses = await self._running.statuses()
            now = self._clock()
            seen = sum(each.chunks for each in statuses)
            if seen != chunks:
                chunks, last_chunk = seen, now
            warm = sum(each.warm for each in statuses) >= self._load.slots
            if not warm or (self._load.slots and now - last_chunk >= SILENCE):
                calm_since = now
            if now - calm_since >= seconds:
                return
            if now - began >= seconds + LONGEST_WARM_UP:
                self._settled = False
                return

    async def window(self, seconds: float) -> Window:
        """Let it run for so long, and until each slot has had a request that ended, on average."""
        first = last = await self._running.statuses()
        begin = self._clock()
        await asyncio.sleep(seconds)
        while self._clock() - begin < seconds * LONGEST_WINDOW:
            last = await self._running.statuses()
            if _ended(last) - _ended(first) >= self._load.slots:
                break
        window = Window(begin, self._clock())
        self._busy = _busiest(first, last)
        return window

    def stop(self) -> None:
        """Send nothing new."""
        self._running.stop()

    async def samples(self) -> list[Sample]:
        """All its requests, once the last one has ended."""
        return await self._running.samples()

    def cut(self) -> None:
        """Close what is open."""
        self._running.stop(cut=True)

    def seen(self, samples: list[Sample], window: Window) -> Seen:
        """What came of it."""
        found = figures(samples, window)
        notes, problems = [], []
        if self._busy >= CLIENT_LIMIT:
            problems.append(f"the client is at its limit ({self._busy:.0%} of a core): use more processes")
        if not self._settled:
            notes.append(f"the load did not stand after {LONGEST_WARM_UP:g} s: not every slot had a token")
        if self._load.rate and _grows(samples, window):
            problems.append("more came than was served: the requests in flight grew all the time")
        return Seen(found, window, self._busy, tuple(notes), tuple(problems))


async def measure(crew: Crew, load: Load, pace: Pace, clock: Callable[[], float]) -> Seen:
    """One whole cell. What is open is closed if this is cancelled. Raises ClientDied."""
    held = Held(crew.begin(load), load, clock)
    try:
        await held.warm(pace.warm_up)
        window = await held.window(pace.seconds)
        held.stop()
        return held.seen(await held.samples(), window)
    except BaseException:
        held.cut()
        raise


def _ended(statuses: list[Status]) -> int:
    return sum(each.done for each in statuses)


def _busiest(first: list[Status], last: list[Status]) -> float:
    return max((b.cpu - a.cpu) / max(1e-9, b.at - a.at) for a, b in zip(first, last, strict=True))


def _grows(samples: list[Sample], window: Window) -> bool:
    middle = (window.begin + window.end) / 2
    halves = (Window(window.begin, middle), Window(middle, window.end))
    early, late = (figures(samples, half).in_flight for half in halves)
    return late > GROWTH * early and late - early > GROWTH_LEAST
