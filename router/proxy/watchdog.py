"""The time limits of one request, each on its own: first byte, silence, total, a client that stalls.

A few times a second it is looked whether bytes have come since the last look, so that a chunk costs neither
a timer nor a reading of the clock. Bytes count as having come when that is noticed, so a limit strikes up to
two ticks late, and never early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from router.core.failure import Failure, Kind
from router.proxy.client import Client
from router.proxy.rounds import Rounds
from router.proxy.settings import Settings
from router.upstream.connection import Connection


class Phase(Enum):
    """What the request is waiting for."""

    FIRST_BYTE = "first_byte"
    ENGINE = "engine"
    CLIENT = "client"


class Watchdog:
    """Watches one request from the moment it is sent to an engine.

    Args:
        loop: its clock is used throughout.
        rounds: which this joins while the request is at an engine.
        settings: the limits.
        client: reset when it stalls.
        began: when the request arrived, by the loop's clock.
        on_flow: called once a tick while bytes come from the engine, with the time at which that is noticed.
    """

    __slots__ = (
        "_began",
        "_client",
        "_loop",
        "_on_flow",
        "_received",
        "_rounds",
        "_settings",
        "_unsent",
        "connection",
        "phase",
        "sent",
        "since",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rounds: Rounds,
        settings: Settings,
        client: Client,
        began: float,
        on_flow: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._rounds = rounds
        self._settings = settings
        self._client = client
        self._began = began
        self._on_flow = on_flow
        self._received = 0
        self._unsent = 0
        self.sent = False
        self.connection: Connection | None = None
        self.phase = Phase.FIRST_BYTE
        self.since = began

    def start(self, connection: Connection) -> None:
        """A new attempt begins on `connection`."""
        self.connection = connection
        self.sent = True
        self.phase = Phase.FIRST_BYTE
        self.since = self._loop.time()
        self._received = 0
        self._rounds.join(self)

    def stop(self) -> None:
        """The request has ended."""
        self.connection = None
        self._rounds.leave(self)

    def flows(self) -> None:
        """The engine has answered, or the client's connection has room again: the engine's turn."""
        self.phase = Phase.ENGINE
        self.since = self._loop.time()

    def blocked(self) -> None:
        """The client's connection has no room, or has been given all: the client's turn."""
        self.phase = Phase.CLIENT
        self.since = self._loop.time()

    def look(self, now: float) -> None:
        """See whether bytes have come and whether a limit is passed."""
        connection = self.connection
        if connection is not None and connection.received != self._received:
            self._received = connection.received
            self._on_flow(now)
            if self.phase is Phase.ENGINE:
                self.since = now
        if kind := self._exceeded(now):
            self._strike(kind)

    def _exceeded(self, now: float) -> Kind | None:
        limits = self._settings
        if limits.total and now - self._began > limits.total:
            return Kind.TOTAL_TIMEOUT
        if self.phase is Phase.CLIENT:
            return Kind.CLIENT_STALLED if limits.client_write and self._stalled(now) else None
        limit, kind = (
            (limits.first_byte, Kind.FIRST_BYTE_TIMEOUT)
            if self.phase is Phase.FIRST_BYTE
            else (limits.idle, Kind.IDLE_TIMEOUT)
        )
        return kind if limit and now - self.since > limit else None

    def _stalled(self, now: float) -> bool:
        """True if the client took nothing for the whole limit; a slow reader makes progress and stays."""
        unsent = self._client.unsent
        if unsent != self._unsent:
            self._unsent = unsent
            self.since = now
            return False
        return now - self.since > self._settings.client_write

    def _strike(self, kind: Kind) -> None:
        connection, self.connection = self.connection, None
        if kind is Kind.CLIENT_STALLED:
            self._client.leave(kind)
            self._client.reset()
        elif connection is not None:
            connection.fail(Failure(kind))
