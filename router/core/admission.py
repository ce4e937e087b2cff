"""Admission: how many requests may be at the engines at once, and in which order the others wait.

First come, first served. A slot is not counted here: it is an active lease, so the limit cannot
drift from the ledger. `pump` runs whenever a lease ends.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

from router.core.ledger import Clock, Lease, Ledger

RETRY_AFTER_MIN = 1
RETRY_AFTER_MAX = 30


def whole_seconds(wait: float) -> int:
    """A wait in seconds as `Retry-After` says it: whole, within 1…30."""
    return max(RETRY_AFTER_MIN, math.ceil(min(RETRY_AFTER_MAX, wait)))


class Entry(StrEnum):
    """What became of a request at the door."""

    ADMITTED = "admitted"
    QUEUED = "queued"
    FULL = "full"


class DrainRate:
    """Requests finished per second, exponentially weighted: the base of every `Retry-After`.

    Args:
        clock: monotonic seconds.
        horizon: seconds after which an event has lost 63 % of its weight.
    """

    def __init__(self, clock: Clock, horizon: float = 10.0) -> None:
        self._clock = clock
        self._horizon = horizon
        self._weight = 0.0
        self._at = clock()

    def record(self) -> None:
        """A request finished."""
        self._decay()
        self._weight += 1.0

    def per_second(self) -> float:
        """Requests per second over the recent past."""
        self._decay()
        return self._weight / self._horizon

    def _decay(self) -> None:
        now = self._clock()
        self._weight *= math.exp(-(now - self._at) / self._horizon)
        self._at = now

    def retry_after(self, ahead: int) -> int:
        """Whole seconds after which `ahead` requests will be gone at this rate, within 1…30."""
        rate = self.per_second()
        if rate <= 0.0:
            return RETRY_AFTER_MAX if ahead else RETRY_AFTER_MIN
        # Capped before it is rounded: hours after the last request the quotient is infinite.
        return whole_seconds(ahead / rate)


class Admission:
    """The door in front of the engines.

    Args:
        ledger: its active leases are the slots taken.
        max_active: slots.
        queue_size: requests that may wait for a slot; 0: none.
    """

    def __init__(self, ledger: Ledger, max_active: int, queue_size: int) -> None:
        self._ledger = ledger
        self.max_active = max_active
        self.queue_size = queue_size
        self._waiting: OrderedDict[Lease, Callable[[], None]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    def enter(self, lease: Lease, on_turn: Callable[[], None]) -> Entry:
        """Ask for a slot. If queued, `on_turn` is called once when it is this request's turn.

        `on_turn` must start the lease before it returns, or close it: that is what takes the slot.
        """
        if not self._waiting and self._ledger.active < self.max_active:
            return Entry.ADMITTED
        if len(self._waiting) >= self.queue_size:
            return Entry.FULL
        self._waiting[lease] = on_turn
        return Entry.QUEUED

    def leave(self, lease: Lease) -> None:
        """Stop waiting; harmless if it is not waiting."""
        self._waiting.pop(lease, None)

    def pump(self) -> None:
        """Let in whoever is next while there are slots."""
        while self._waiting and self._ledger.active < self.max_active:
            _, on_turn = self._waiting.popitem(last=False)
            on_turn()
