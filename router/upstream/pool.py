"""Keep-alive connections to one engine.

Last in, first out, so that a quiet pool shrinks to what is needed; O(1) however many are idle. An
idle connection is closed before the engine's own keep-alive limit (SGLang: 5 s), and one that dies
all the same before a single response byte is replaced once by a fresh one (the caller does that).
There is no limit on connections: how many requests may be open is the door's business.
"""

from __future__ import annotations

import asyncio
from collections import deque

from router.core.failure import Failure, Kind
from router.upstream.connection import Connection

# Below SGLang's SGLANG_TIMEOUT_KEEP_ALIVE default of 5 s, by more than a slow loop's delay.
IDLE_EXPIRY = 4.0


class Pool:
    """Connections to one engine. Make it inside a running event loop.

    Args:
        host, port: where the engine listens; a name is resolved for every new connection.
        connect_timeout: seconds; 0: none.
        idle_expiry: seconds after which an idle connection is closed.
    """

    def __init__(
        self, host: str, port: int, *, connect_timeout: float, idle_expiry: float = IDLE_EXPIRY
    ) -> None:
        self.host = host
        self.port = port
        self.connect_timeout = connect_timeout
        # Kept, because asking for the running loop is a system call (getpid) on Python 3.11.
        self._loop = asyncio.get_running_loop()
        self._idle_expiry = idle_expiry
        self._idle: deque[Connection] = deque()
        self._in_use: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle(self) -> int:
        """Connections that wait for a request; those the engine closed meanwhile included."""
        return len(self._idle)

    @property
    def in_use(self) -> int:
        """Connections with an exchange on them."""
        return len(self._in_use)

    async def acquire(self, *, fresh: bool = False) -> Connection:
        """A connection to send one request on; give it back with `release`.

        Raises:
            Failure: `engine_unreachable` or `connect_timeout`.
        """
        connection = None if fresh else self._take_idle()
        if connection is None:
            connection = await self._connect()
        self._in_use.add(connection)
        return connection

    def release(self, connection: Connection) -> None:
        """Take a connection back: kept if its exchange ended cleanly, closed otherwise."""
        self._in_use.discard(connection)
        if self._closed or not connection.reusable:
            connection.close()
            return
        connection.rest(self._loop.time())
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._idle_expiry, self._sweep)

    def close(self) -> None:
        """Close everything; connections in use too."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in (*self._idle, *self._in_use):
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> Connection | None:
        now = self._loop.time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_closed:
                continue
            if now - connection.idle_since < self._idle_expiry:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        loop = self._loop
        try:
            async with asyncio.timeout(self.connect_timeout or None):
                _, connection = await loop.create_connection(lambda: Connection(loop), self.host, self.port)
        except TimeoutError:
            raise Failure(Kind.CONNECT_TIMEOUT) from None
        except OSError:
            raise Failure(Kind.CONNECT) from None
        return connection

    def _sweep(self) -> None:
        """Close what has been idle too long; the oldest are on the left."""
        self._sweeper = None
        loop = self._loop
        while self._idle and (
            self._idle[0].is_closed or loop.time() - self._idle[0].idle_since >= self._idle_expiry
        ):
            self._idle.popleft().close()
        if self._idle and not self._closed:
            due = self._idle[0].idle_since + self._idle_expiry
            self._sweeper = loop.call_at(due, self._sweep)
