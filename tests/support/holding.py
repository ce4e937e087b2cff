"""An engine that answers a request when the test says so."""

from __future__ import annotations

import asyncio
from collections import deque

from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine, good


class Holding:
    """Takes over an engine's script: requests wait, oldest first, until `release`."""

    def __init__(self, engine: FakeEngine) -> None:
        self._waiting: deque[asyncio.Event] = deque()
        engine.script = self._script

    async def _script(self, conn: EngineConn, request: RawRequest) -> None:
        go = asyncio.Event()
        self._waiting.append(go)
        try:
            await go.wait()
        finally:
            if go in self._waiting:
                self._waiting.remove(go)
        await good(conn, request)

    @property
    def held(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def release(self, count: int | None = None) -> None:
        """Let `count` requests be answered; None: all."""
        for _ in range(self.held if count is None else count):
            self._waiting.popleft().set()
