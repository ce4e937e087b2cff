"""The load: users who each ask, read the whole answer, and ask again; their number follows a wave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from router.demo.client import StreamClient
from router.demo.prompts import Prompts
from router.demo.tally import Tally

TICK = 0.1
# A user whose request failed does not hammer.
PAUSE_AFTER_FAILURE = 0.5


class Load:
    """A closed loop of users.

    Args:
        users: how many there should be, by seconds since the load began.
        client: makes a user's connection.
        prompts: what they ask.
        tally: gets every reply.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        users: Callable[[float], int],
        client: Callable[[], StreamClient],
        prompts: Prompts,
        tally: Tally,
        clock: Callable[[], float],
    ) -> None:
        self._users = users
        self._client = client
        self._prompts = prompts
        self._tally = tally
        self._clock = clock
        self._wanted = 0
        self._turns: dict[int, int] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    @property
    def wanted(self) -> int:
        """Users there should be now."""
        return self._wanted

    async def run(self) -> None:
        """Follow the wave until cancelled."""
        began = self._clock()
        while True:
            self._wanted = self._users(self._clock() - began)
            for user in range(self._wanted):
                if user not in self._tasks:
                    task = asyncio.create_task(self._live(user), name=f"user {user}")
                    self._tasks[user] = task
                    task.add_done_callback(partial(self._gone, user))
            await asyncio.sleep(TICK)

    async def finish(self, limit: float, hurry: asyncio.Event) -> None:
        """No new requests; open ones get `limit` seconds, or until `hurry` is set. `run` has ended before.

        What is then still open was cut off by a hurry, or counts as failed.
        """
        self._wanted = 0
        deadline = self._clock() + limit
        while self._tasks and not hurry.is_set() and self._clock() < deadline:
            await asyncio.sleep(0.02)
        left = list(self._tasks.values())
        if left and not hurry.is_set():
            self._tally.unfinished(len(left), f"open {limit:g} s after the load ended")
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _gone(self, user: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(user, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tally.unfinished(1, f"the load itself failed: {error!r}")

    async def _live(self, user: int) -> None:
        client = self._client()
        try:
            while user < self._wanted:
                turn = self._turns[user] = self._turns.get(user, 0) + 1
                reply = await client.ask(self._prompts.body(user, turn))
                self._tally.record(reply)
                if reply.problem is not None:
                    await asyncio.sleep(PAUSE_AFTER_FAILURE)
        finally:
            client.close()
