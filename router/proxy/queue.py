"""Waiting for a slot: the asyncio side of `core.admission`."""

from __future__ import annotations

import asyncio

from router.core.admission import Admission, Entry
from router.core.classes import Wish
from router.core.events import Decision
from router.core.failure import Failure, Kind
from router.core.ledger import Lease
from router.core.pair import Pair
from router.proxy.wish import unavailable


class Turn:
    """One request's way through the door: from an open lease to one that has started on its path.

    Args:
        door: the limits.
        pair: decides at the moment the request's turn comes, not when it arrives.
        lease: queued when this begins.
        wish: what the request itself says about its path.
    """

    def __init__(self, door: Admission, pair: Pair, lease: Lease, wish: Wish | None) -> None:
        self._door = door
        self._pair = pair
        self._lease = lease
        self._wish = wish
        self._turn: asyncio.Future[None] | None = None
        self.decision: Decision | None = None

    async def take(self, timeout: float) -> Decision:
        """Wait up to `timeout` seconds for a slot.

        Raises:
            Failure: `queue_full`, `queue_timeout`, `no_engine`, `path_unavailable`, or what `end` was given.
        """
        entry = self._door.enter(self._lease, self._on_turn)
        if entry is Entry.FULL:
            raise Failure(Kind.QUEUE_FULL)
        if entry is Entry.ADMITTED:
            self._decide()
        else:
            await self._wait(timeout)
        if self.decision is None:
            raise unavailable(self._wish)
        return self.decision

    def end(self, failure: Failure) -> None:
        """Stop waiting with `failure`; nothing if this is not waiting."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(failure)

    async def _wait(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        self._turn = loop.create_future()
        timer = loop.call_later(timeout, self.end, Failure(Kind.QUEUE_TIMEOUT))
        try:
            await self._turn
        finally:
            timer.cancel()
            self._door.leave(self._lease)

    def _on_turn(self) -> None:
        if self._turn is None or self._turn.done():
            return
        self._decide()
        self._turn.set_result(None)

    def _decide(self) -> None:
        self.decision = self._pair.decide(self._wish)
        if self.decision is not None:
            self._lease.start(self.decision.path)
