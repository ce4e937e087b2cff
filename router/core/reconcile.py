"""What an engine holds beyond our leases: other clients, requests whose clients left, further choices.

An engine's gauges lag by up to a few seconds. So a reading is compared with the most leases of the time
before it, not with those of now, and what it shows beyond counts only if the next reading shows it too.
Ours plus that excess is what loads the engine; it is never less than ours.
"""

from __future__ import annotations

from collections import deque

from router.core.ledger import Clock
from router.core.load import EngineLoad, finite

# The lag of a gauge (3 s were seen) and the time that a reading may take, with room.
WINDOW = 6.0
# Seconds after which a reading says nothing any more.
MAX_AGE = 10.0


class Peak:
    """The highest value of a step function over the last `window` seconds.

    Past values are kept only while a later one is not higher, so there are never more than different values.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._value = 0
        self._past: deque[tuple[float, int]] = deque()  # (when it ended, value), values falling

    def note(self, now: float, value: int) -> None:
        """From `now` on the value is this."""
        while self._past and self._past[-1][1] <= self._value:
            self._past.pop()
        self._past.append((now, self._value))
        self._value = value

    def at(self, now: float) -> int:
        """The highest value of [now - window, now]; `now` never goes back."""
        while self._past and self._past[0][0] < now - self._window:
            self._past.popleft()
        return max(self._value, self._past[0][1] if self._past else 0)


class Reconciler:
    """Compares one engine's own count with ours.

    Args:
        clock: monotonic seconds.
        window: seconds before a reading whose leases explain it.
        max_age: seconds after which a reading says nothing any more.
    """

    def __init__(self, clock: Clock, window: float = WINDOW, max_age: float = MAX_AGE) -> None:
        self._clock = clock
        self._max_age = max_age
        self._ours = Peak(window)
        self._seen: deque[tuple[float, int]] = deque(maxlen=2)  # (time, requests beyond ours)
        self._stamp: float | None = None

    def note(self, ours: int) -> None:
        """Our leases at the engine have become this many."""
        self._ours.note(self._clock(), ours)

    def read(self, load: EngineLoad) -> None:
        """Take a reading in. One that is incomplete, malformed or no news is not counted."""
        running, waiting = finite(load.running), finite(load.waiting)
        if running is None or waiting is None or running < 0 or waiting < 0:
            return
        if self._seen and load.at <= self._seen[-1][0]:
            return
        # A gauge that stands still says nothing of now: the engine itself dates what it shows.
        if load.stamp is not None and load.stamp == self._stamp:
            return
        self._stamp = load.stamp
        beyond = int(running + waiting) - self._ours.at(load.at)
        self._seen.append((load.at, max(0, beyond)))

    def forget(self) -> None:
        """The engine is gone, and all that it held."""
        self._seen.clear()
        self._stamp = None

    def excess(self) -> int:
        """Requests that the engine holds beyond ours: what the last two readings agree on; else 0."""
        if len(self._seen) < 2:
            return 0
        (before, first), (latest, second) = self._seen
        if self._clock() - latest > self._max_age or latest - before > self._max_age:
            return 0
        return min(first, second)
