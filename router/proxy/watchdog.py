"""The time limits of one request, each on its own: first byte, silence, total, a client that stalls.

One coarse timer per request looks at two timestamps, so that a chunk costs an assignment and no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from router.core.failure import Failure, Kind
from router.proxy.client import Client
from router.proxy.settings import Settings
from router.upstream.connection import Connection

# How often the limits are looked at, at most; a limit strikes up to this much late.
TICK = 0.5


class Phase(Enum):
    """What the request is waiting for."""

    FIRST_BYTE = "first_byte"
    ENGINE = "engine"
    CLIENT = "client"


class Watchdog:
    """Watches one request from the moment it is sent to an engine.

    Args:
        loop: its clock is used throughout.
        settings: the limits.
        client: reset when it stalls.
        began: when the request arrived, by the loop's clock.
        on_flow: called with the time of the last byte from the engine, about once a tick while bytes flow.
    """

    __slots__ = (
        "_began",
        "_client",
        "_loop",
        "_on_flow",
        "_settings",
        "_timer",
        "_told",
        "_unsent",
        "connection",
        "flowed_at",
        "phase",
        "sent",
        "since",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        client: Client,
        began: float,
        on_flow: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._client = client
        self._began = began
        self._on_flow = on_flow
        self._unsent = 0
        self.sent = False
        self._told: float | None = None
        self.connection: Connection | None = None
        self.phase = Phase.FIRST_BYTE
        self.since = loop.time()
        self.flowed_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: Connection) -> None:
        """A new attempt begins on `connection`."""
        self.connection = connection
        self.sent = True
        self.phase = Phase.FIRST_BYTE
        self.since = self._loop.time()
        self.flowed_at = None  # bytes of the engine before speak for that engine alone
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """The request has ended."""
        self.connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def got_bytes(self, *, taken: bool) -> None:
        """Bytes came from the engine; `taken`: the client's connection has room for more."""
        self.since = self.flowed_at = self._loop.time()
        self.phase = Phase.ENGINE if taken else Phase.CLIENT

    def wrote(self) -> None:
        """The client's connection has room again."""
        self.since = self._loop.time()
        self.phase = Phase.ENGINE

    def _arm(self) -> None:
        limits = (
            self._settings.first_byte,
            self._settings.idle,
            self._settings.total,
            self._settings.client_write,
        )
        shortest = min((limit for limit in limits if limit), default=TICK)
        self._timer = self._loop.call_later(min(TICK, shortest / 4), self._look)

    def _look(self) -> None:
        self._arm()
        now = self._loop.time()
        if self.flowed_at is not None and self.flowed_at != self._told:
            self._told = self.flowed_at
            self._on_flow(self.flowed_at)
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
