"""Watching one engine: is it well, and how busy is it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx
from structlog.typing import FilteringBoundLogger

from router.control.client import Endpoint
from router.control.identity import IdentityReader
from router.control.load import LoadReader
from router.control.probe import Prober
from router.core.health import EngineHealth, Probe
from router.core.identity import Told
from router.core.ledger import Clock
from router.core.load import EngineLoad, Readings

Sleep = Callable[[float], Awaitable[None]]

# Found by a probe that got no further than the door: there is no scheduler to look for behind it.
_SHUT = (Probe.REFUSED, Probe.NOT_READY)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Intervals and limits of the three loops, in seconds."""

    ready_interval: float = 1.0
    ready_timeout: float = 2.0
    deep_interval: float = 30.0
    deep_timeout: float = 25.0
    load_interval: float = 1.0

    @property
    def shortest(self) -> float:
        """The shorter of the probes' intervals: how often to look whether a deep probe is due."""
        return min(self.ready_interval, self.deep_interval)


class EngineMonitor:
    """Probes one engine and reads its load until cancelled.

    The deep probe costs the engine a token and a second, so it is only made of an engine that answers;
    it comes at once when an engine has come back, and again soon after its first good result, so that a
    repaired engine does not wait for minutes.

    Args:
        endpoint: the engine.
        client: for all requests; not closed here.
        health: told what the probes found.
        readings: told what the engine says of itself.
        rhythm: how often; may be replaced while this runs.
        clock: monotonic seconds.
        sleep: waits for that many seconds.
        on_change: called after every probe, that the pair may be evaluated again.
        on_load: called with every reading, and with None when the engine is gone.
        on_told: called with what the engine says it is, whenever it was asked.
        log: where unforeseen errors go. Changes of health are told by who judges it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: httpx.AsyncClient,
        health: EngineHealth,
        readings: Readings,
        rhythm: Rhythm,
        clock: Clock,
        sleep: Sleep,
        on_change: Callable[[], None],
        on_load: Callable[[EngineLoad | None], None],
        on_told: Callable[[Told], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._prober = Prober(client, endpoint)
        self._reader = LoadReader(client, endpoint, clock)
        self._identity = IdentityReader(client, endpoint, clock)
        self._health = health
        self._readings = readings
        self.rhythm = rhythm
        self._clock = clock
        self._sleep = sleep
        self._on_change = on_change
        self._on_load = on_load
        self._on_told = on_told
        self._log = log
        self._door: Probe | None = None
        self._deep_found: Probe | None = None
        self._deep_due = clock() + rhythm.deep_interval
        self._faults: dict[str, str] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat("ready", self.probe_ready, lambda: self.rhythm.ready_interval))
            group.create_task(self._repeat("deep", self.probe_deep_if_due, lambda: self.rhythm.shortest))
            group.create_task(self._repeat("load", self.read_load, lambda: self.rhythm.load_interval))

    async def probe_ready(self) -> None:
        """One readiness probe."""
        began = self._clock()
        found = await self._prober.ready(self.rhythm.ready_timeout)
        self._health.record_ready(found, began)
        if found is Probe.REFUSED and self._door is not found:
            self._reader.forget()
            self._identity.forget()
            self._readings.forget()
            self._on_load(None)
        if found is Probe.OK and self._door is not found:
            self._deep_due = self._clock()
        self._door = found
        self._on_change()

    async def probe_deep_if_due(self) -> None:
        """A deep probe, if it is time for one and there is an engine to ask."""
        began = self._clock()
        if began < self._deep_due or self._door in _SHUT:
            return
        found = await self._prober.deep(self.rhythm.deep_timeout)
        self._health.record_deep(found, began)
        recovering = found is Probe.OK and self._deep_found is not found
        self._deep_found = found
        self._deep_due = self._clock() + (self.rhythm.shortest if recovering else self.rhythm.deep_interval)
        self._on_change()

    async def read_load(self) -> None:
        """One reading of the engine's load, unless nobody listens; and of what it is, when that is due."""
        if self._door is Probe.REFUSED:
            return
        load = await self._reader.read()
        if load is not None:
            self._readings.record(load)
            self._on_load(load)
        told = await self._identity.read_if_due()
        if told is not None:
            self._on_told(told)

    async def _repeat(self, name: str, step: Callable[[], Awaitable[None]], interval: Clock) -> None:
        """Take a step every `interval` seconds. An error of a kind is logged when it begins only."""
        while True:
            try:
                await step()
                self._faults.pop(name, None)
            except Exception as error:
                kind = type(error).__name__
                if self._faults.get(name) != kind:
                    self._faults[name] = kind
                    self._log.exception("a probe failed unexpectedly", probe=name)
            await self._sleep(interval())
