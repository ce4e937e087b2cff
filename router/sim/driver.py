"""Runs a simulated GPU in real time on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import time as wall_time

from router.core.words import Path
from router.sim.gpu import SimGpu
from router.sim.request import Delivery, SimRequest

Sink = Callable[[Delivery], None]

# uvloop rounds timers to milliseconds; one that fires early would find nothing due and spin until it is.
_TIMER_SLACK = 0.0005


class Driver:
    """Moves a GPU's time along with the loop's clock and passes each delivery to its request's sink.

    Steps follow each other in simulated time, so a late timer delays deliveries but never slows the engine
    down.
    """

    def __init__(self, gpu: SimGpu, time_scale: float = 1.0) -> None:
        self.gpu = gpu
        self.time_scale = time_scale
        self._loop = asyncio.get_running_loop()
        self._origin = self._loop.time() - gpu.now / time_scale
        self._wall_origin = wall_time() - self._loop.time()
        self._sinks: dict[SimRequest, Sink] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def wall(self, at: float) -> float:
        """Unix time of a moment of the GPU's clock."""
        return self._wall_origin + self._origin + at / self.time_scale

    def age(self, at: float) -> float:
        """Real seconds since a moment of the GPU's clock."""
        return self._loop.time() - self._origin - at / self.time_scale

    def catch_up(self) -> None:
        """Let everything happen that is due by now."""
        self._deliver(self.gpu.advance((self._loop.time() - self._origin) * self.time_scale))

    def submit(self, path: Path, request: SimRequest, sink: Sink) -> None:
        """Start a request; `sink` gets its deliveries until the one with a finish. Raises QueueFull."""
        self.catch_up()
        self.gpu.submit(path, request)
        self._sinks[request] = sink
        self._arm()

    def abort(self, path: Path, request: SimRequest) -> None:
        """End a request now; its sink gets an aborted delivery. Nothing happens if it had ended."""
        self.catch_up()
        delivery = self.gpu.abort(path, request)
        if delivery is not None:
            self._deliver((delivery,))
        self._arm()

    def close(self) -> None:
        """Stop for good; sinks hear nothing any more."""
        self._closed = True
        self._sinks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deliver(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.finish is None:
                sink = self._sinks.get(delivery.request)
            else:
                sink = self._sinks.pop(delivery.request, None)
            if sink is not None:
                sink(delivery)

    def _arm(self) -> None:
        due = self.gpu.next_event_at()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None and not self._closed:
            self._timer = self._loop.call_at(self._origin + due / self.time_scale + _TIMER_SLACK, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.catch_up()
        self._arm()
