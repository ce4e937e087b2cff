"""Time limits of one request in the queue and in the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from router.sim.driver import Driver
from router.sim.request import Phase, SimRequest

Expire = Callable[[SimRequest, str], None]


class Deadlines:
    """Watches requests until they are forgotten; gives each that took too long to `expire`, with the reason.

    `waiting`, `running`: real seconds; None: no limit.
    """

    def __init__(self, driver: Driver, waiting: float | None, running: float | None, expire: Expire) -> None:
        self._driver = driver
        self._waiting = waiting
        self._running = running
        self._expire = expire
        self._timers: dict[SimRequest, asyncio.TimerHandle] = {}

    def watch(self, request: SimRequest) -> None:
        """From its submission on."""
        if (limit := self._limit(request)) is not None:
            self._arm(request, limit)

    def forget(self, request: SimRequest) -> None:
        """It has ended."""
        if (timer := self._timers.pop(request, None)) is not None:
            timer.cancel()

    def _limit(self, request: SimRequest) -> float | None:
        limits = [limit for limit in (self._waiting, self._running) if limit is not None]
        return min(limits, default=None) if request.phase is Phase.WAITING else self._running

    def _arm(self, request: SimRequest, delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[request] = loop.call_later(delay, self._look, request)

    def _look(self, request: SimRequest) -> None:
        del self._timers[request]
        self._driver.catch_up()
        if request.phase is Phase.WAITING:
            limit, since, state = self._waiting, request.submitted_at, "waiting"
        elif request.phase is Phase.RUNNING:
            limit, since, state = self._running, request.admitted_at, "running"
        else:
            return
        left = self._limit_left(limit, since)
        if left is None:
            return
        if left > 0:
            self._arm(request, left)
        else:
            self._expire(request, f"Request {state} timeout reached.")

    def _limit_left(self, limit: float | None, since: float) -> float | None:
        return None if limit is None else limit - self._driver.age(since)
