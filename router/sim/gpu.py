"""The simulated GPU: how fast the steps of its one or two engines go by, over time that is handed in.

Measured on an H200: a GPU is time-sliced per process, so an engine loses its share as soon as the other one
has any work, one request or a hundred. A step that is under way when that changes goes on at the new speed.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.core.words import Path
from router.sim.engine import SimEngine
from router.sim.request import Delivery, SimRequest


class SimGpu:
    """Engines that share one GPU, and their common time `now` in seconds.

    The caller moves time with `advance` first and then submits or aborts; both take effect at `now`.
    """

    def __init__(self, engines: Mapping[Path, SimEngine], now: float = 0.0) -> None:
        self.engines = dict(engines)
        self.now = now
        self.mixed_seconds = 0.0

    @property
    def mixed(self) -> bool:
        """Whether more than one engine has work."""
        return sum(engine.busy for engine in self.engines.values()) > 1

    def submit(self, path: Path, request: SimRequest) -> None:
        """Hand a request to an engine at the current time. Raises QueueFull."""
        self.engines[path].submit(request, self.now)

    def abort(self, path: Path, request: SimRequest) -> Delivery | None:
        """Take a request away from an engine at the current time; None when it had ended."""
        return self.engines[path].abort(request, self.now)

    def next_event_at(self) -> float | None:
        """When the next step ends if nothing is submitted or aborted before; None when all is idle."""
        mixed = self.mixed
        ends = [self.now + self._left(engine, mixed) for engine in self.engines.values() if engine.stepping]
        return min(ends, default=None)

    def advance(self, to: float) -> list[Delivery]:
        """Move time to `to` and return everything that happened by then, in order. Time never goes back."""
        deliveries: list[Delivery] = []
        while True:
            mixed = self.mixed
            stepping = [engine for engine in self.engines.values() if engine.stepping]
            first = min(stepping, key=lambda engine: self._left(engine, mixed), default=None)
            if first is None or self.now + self._left(first, mixed) > to:
                self._pass_time(max(0.0, to - self.now), mixed)
                self.now = max(self.now, to)
                return deliveries
            left = self._left(first, mixed)
            self._pass_time(left, mixed)
            self.now += left
            deliveries += first.finish_step(self.now)

    def _left(self, engine: SimEngine, mixed: bool) -> float:
        return engine.work_left / engine.speed.mixed_fraction if mixed else engine.work_left

    def _pass_time(self, seconds: float, mixed: bool) -> None:
        if mixed:
            self.mixed_seconds += seconds
        for engine in self.engines.values():
            if engine.stepping:
                done = seconds * engine.speed.mixed_fraction if mixed else seconds
                engine.work_left = max(0.0, engine.work_left - done)
