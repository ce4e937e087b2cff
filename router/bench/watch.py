"""What a server says of itself while it is measured: accept length and who else is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import httpx

from router.control.parse import read_gauges, read_loads
from router.core.headers import bearer

EVERY = 0.5
TIMEOUT = 2.0
# A server that answers so has no such path, and is not asked again.
ABSENT = (404, 405)


@dataclass(frozen=True, slots=True)
class Told:
    """What the server said, over a time; None where it said nothing.

    Attributes:
        accept_length: mean of the engine's recent one.
        most_requests: the most that ran or waited in it.
        running: mean number that ran.
    """

    accept_length: float | None = None
    most_requests: int | None = None
    running: float | None = None


class Watch:
    """Asks a server every half second for `/metrics` and `/v1/loads`; one that has neither says nothing.

    Args:
        http: the client to ask with.
        url: of the server.
        api_key: its key.
        clock: monotonic seconds.
    """

    def __init__(
        self, http: httpx.AsyncClient, url: str, api_key: str | None, clock: Callable[[], float]
    ) -> None:
        self._http = http
        self._url = url
        self._headers = bearer(api_key)
        self._clock = clock
        self._absent: set[str] = set()
        self._lengths: list[tuple[float, float]] = []
        self._loads: list[tuple[float, int, int]] = []

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Ask once."""
        metrics, loads = await asyncio.gather(self._get("/metrics"), self._get("/v1/loads"))
        now = self._clock()
        if metrics is not None and (length := read_gauges(metrics).accept_length) is not None:
            self._lengths.append((now, length))
        if loads is not None and (found := read_loads(loads)).running is not None:
            self._loads.append((now, found.running, found.waiting or 0))

    def told(self, begin: float, end: float) -> Told:
        """What was said between two times."""
        lengths = [value for at, value in self._lengths if begin <= at <= end]
        loads = [(running, waiting) for at, running, waiting in self._loads if begin <= at <= end]
        return Told(
            fmean(lengths) if lengths else None,
            max((running + waiting for running, waiting in loads), default=None),
            fmean(running for running, _ in loads) if loads else None,
        )

    async def _get(self, path: str) -> bytes | None:
        if path in self._absent:
            return None
        try:
            answer = await self._http.get(self._url + path, headers=self._headers, timeout=TIMEOUT)
        except httpx.HTTPError:
            return None
        if answer.status_code in ABSENT:
            self._absent.add(path)
        return answer.content if answer.status_code == 200 else None
