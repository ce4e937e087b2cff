"""One cell: a load is built up, watched until it stands, measured, and let go."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from router.bench.crew import Crew, Running
from router.bench.figures import Figures, Window, figures
from router.bench.messages import Load, Sample, Status

# A first visit to a batch size may stall for seconds (kernels are built): silence of so many seconds while
# requests are open begins the warm-up anew. What comes more often than so is how the server is.
SILENCE = 1.0
MOST_SILENCES = 3
LONGEST_WARM_UP = 60.0
# A window shorter than a request would see too few prompts, so it lasts until as many requests have ended as
# were open when it began; but so many times its wanted length at most.
LONGEST_WINDOW = 6.0
# A client process that computes for so much of the time, or that comes so many seconds too late to what it
# wants to do, measures itself. The second also happens where others take the processor from it.
CLIENT_LIMIT = 0.85
LATE_LIMIT = 0.005
# An open loop does not stand if more requests are open at its end than at its beginning, by so many standard
# deviations of what chance does.
GROWTH = 2.5


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a cell is measured.

    Attributes:
        seconds: of the window, at least.
        warm_up: seconds of undisturbed answers before it, once the load stands.
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
        client_late: mean seconds by which the latest client process came too late to its own alarms.
    """

    figures: Figures
    window: Window
    client_busy: float
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    client_late: float = 0.0


class Held:
    """A load in progress; `crew.begin` made it, `stop` and `samples` end it.

    Args:
        running: the load at the client processes.
        load: what it is.
        clock: monotonic seconds.
    """

    def __init__(self, running: Running, load: Load, clock: Callable[[], float]) -> None:
        self._running = running
        self._load = load
        self._clock = clock
        self._busy = self._late = 0.0
        self._settled = True

    async def warm(self, seconds: float) -> None:
        """Wait until it stands, and then for so many seconds in which answers come.

        It stands when every slot has seen a token, or a failure; in an open loop, when its first request has
        ended.
        """
        began = calm_since = last_news = self._clock()
        news, silent, silences = -1, False, 0
        while True:
            statuses = await self._running.statuses()
            now = self._clock()
            seen = sum(each.chunks + each.done for each in statuses)
            if seen != news:
                news, last_news, silent = seen, now, False
            if not silent and self._load.slots and now - last_news >= SILENCE:
                silent, silences = True, silences + 1
            warm = sum(each.warm for each in statuses) >= max(1, self._load.slots)
            if not warm or (silent and silences <= MOST_SILENCES):
                calm_since = now
            if now - calm_since >= seconds:
                return
            if now - began >= seconds + LONGEST_WARM_UP:
                self._settled = False
                return

    async def window(self, seconds: float) -> Window:
        """Let it run for so long, and until as many requests have ended as were open at first."""
        first = await self._running.statuses()
        begin = self._clock()
        wanted = sum(each.done + each.open for each in first)
        while True:
            last = await self._running.statuses()
            now = self._clock()
            whole = sum(each.done for each in last) >= wanted
            if now - begin >= seconds * (1.0 if whole else LONGEST_WINDOW):
                break
        self._busy = _most(first, last, lambda each: (each.cpu, each.at))
        self._late = _most(first, last, lambda each: (each.late, each.beats))
        return Window(begin, now)

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
        elif self._late >= LATE_LIMIT:
            problems.append(
                f"the client is {1000 * self._late:.0f} ms late on average: leave it more of the processor"
            )
        if not self._settled:
            notes.append(f"the load did not stand after {LONGEST_WARM_UP:g} s, and was measured all the same")
        if self._load.rate and grows(samples, window, found.in_flight):
            problems.append("more came than was served: the requests in flight grew all the time")
        return Seen(found, window, self._busy, tuple(notes), tuple(problems), self._late)


async def measure(
    crew: Crew,
    load: Load,
    pace: Pace,
    clock: Callable[[], float],
    before: Callable[[], Awaitable[object]] | None = None,
) -> Seen:
    """One whole cell. What is open is closed if this is cancelled.

    Args:
        before: waited for while the load goes on, before it is warmed up.

    Raises:
        ClientDied: a client process ended by itself.
    """
    held = Held(crew.begin(load), load, clock)
    try:
        if before is not None:
            await before()
        await held.warm(pace.warm_up)
        window = await held.window(pace.seconds)
        held.stop()
        return held.seen(await held.samples(), window)
    except BaseException:
        held.cut()
        raise


def _most(first: list[Status], last: list[Status], of: Callable[[Status], tuple[float, float]]) -> float:
    """The most that one quantity grew by another in any process."""
    pairs = [(of(a), of(b)) for a, b in zip(first, last, strict=True)]
    return max((b[0] - a[0]) / max(1e-9, b[1] - a[1]) for a, b in pairs)


def grows(samples: Sequence[Sample], window: Window, in_flight: float) -> bool:
    """Whether more requests are open at the end than chance explains.

    Requests that come by chance and are served at once leave a number open that is Poisson distributed, so
    the difference of two has twice its mean as variance.
    """
    first, last = (sum(one.started <= at < one.ended for one in samples) for at in (window.begin, window.end))
    return last - first > GROWTH * math.sqrt(2.0 * max(1.0, in_flight))
