"""Looking at every request that is under way, a few times a second: one timer for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

_log = logging.getLogger("router.proxy")


class Watched(Protocol):
    """What is looked at."""

    def look(self, now: float) -> None:
        """It is `now`, by the loop's clock."""


class Rounds:
    """Goes round. There is a timer only while there is somebody to look at.

    Args:
        loop: its clock and its timers are used.
        every: seconds between two rounds; asked before each.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, every: Callable[[], float]) -> None:
        self._loop = loop
        self._every = every
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def join(self, watched: Watched) -> None:
        """Look at it too, from the next round on."""
        self._watched.add(watched)
        if self._timer is None:
            self._arm()

    def leave(self, watched: Watched) -> None:
        """Do not look at it any more; harmless if that is so."""
        self._watched.discard(watched)

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self._every(), self._go)

    def _go(self) -> None:
        self._timer = None
        if not self._watched:
            return
        self._arm()
        now = self._loop.time()
        for watched in tuple(self._watched):
            try:
                watched.look(now)
            except Exception:
                _log.exception("a request could not be looked at")
