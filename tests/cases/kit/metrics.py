"""Reading the router's Prometheus page."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from .client import ask, request_bytes

PREFIX = "spec_router_"
SeriesKey = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One scrape."""

    series: Mapping[SeriesKey, float]
    text: str
    seconds: float  # how long the scrape took

    def sum(self, name: str, **labels: str) -> float:
        """Sum over the series of that name (prefix optional) that carry those labels; 0 if there are none."""
        full = name if name.startswith(PREFIX) else PREFIX + name
        wanted = labels.items()
        return sum(value for (key, have), value in self.series.items() if key == full and wanted <= have)

    def in_flight(self, path: str) -> float:
        """Requests in flight on `speculative`, `baseline` or `queue`."""
        return self.sum("in_flight", path=path)

    def active_path(self) -> str:
        """Where new requests go by policy."""
        active = [
            dict(labels)["path"]
            for (name, labels), value in self.series.items()
            if name == PREFIX + "active_path" and value == 1
        ]
        assert len(active) == 1, f"active paths: {active}"
        return active[0]

    def names(self) -> set[str]:
        """All sample names."""
        return {name for name, _ in self.series}


def parse_metrics(text: str, seconds: float = 0.0) -> Metrics:
    """Parse the text format."""
    series = {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Metrics(series, text, seconds)


async def scrape(port: int, within: float = 5.0) -> Metrics:
    """GET /metrics on the admin port."""
    started = time.monotonic()
    response = await ask(port, request_bytes("GET", "/metrics", host=f"127.0.0.1:{port}"), within)
    assert response.status == 200, response.head.line
    return parse_metrics(response.body.decode(), time.monotonic() - started)


@dataclass(slots=True)
class Scraper:
    """One scrape each `every` seconds in the background; remembers negatives, peaks and the slowest."""

    port: int
    every: float = 0.05
    scrapes: int = 0
    negatives: list[str] = field(default_factory=list)
    peak: dict[str, float] = field(default_factory=dict)  # by path
    slowest: float = 0.0
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Scraper:
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._once()
            await asyncio.sleep(self.every)

    async def _once(self) -> None:
        started = time.monotonic()
        response = await ask(self.port, request_bytes("GET", "/metrics", host=f"127.0.0.1:{self.port}"))
        self.slowest = max(self.slowest, time.monotonic() - started)
        self.scrapes += 1
        for line in response.body.decode().splitlines():
            if line.startswith(PREFIX + "in_flight{"):
                self._look(line)

    def _look(self, line: str) -> None:
        value = float(line.rsplit(" ", 1)[1])
        path = line.split('path="')[1].split('"')[0]
        self.peak[path] = max(self.peak.get(path, 0.0), value)
        if value < 0:
            self.negatives.append(line)
