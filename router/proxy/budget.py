"""Memory for request bodies, which are held whole until a retry is no longer possible.

A body asks for its memory when the first little of it has been read, so a client that must wait is not read
from and TCP slows it down. First come, first served: a large body is not starved by small ones behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from router.core.failure import Failure, Kind


class BodyBudget:
    """A shared number of bytes.

    Args:
        limit: bytes that all held bodies may take together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take_now(self, size: int) -> bool:
        """Take `size` bytes if that needs no waiting."""
        if self._waiting or self.held + size > self.limit:
            return False
        self.held += size
        return True

    async def take(self, size: int, timeout: float) -> None:
        """Take `size` bytes, waiting up to `timeout` seconds for others to give theirs back.

        Raises:
            Failure: `body_memory`.
        """
        if self.take_now(size):
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append((size, turn))
        timer = loop.call_later(timeout, self._give_up, turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give(size)  # it was our turn in the very moment we left
            raise
        finally:
            timer.cancel()
            self._admit()

    def give(self, size: int) -> None:
        """Give `size` bytes back."""
        self.held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if self.held + size > self.limit:
                    return
                self.held += size
                turn.set_result(None)
            self._waiting.popleft()

    @staticmethod
    def _give_up(turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(Failure(Kind.BODY_MEMORY))
