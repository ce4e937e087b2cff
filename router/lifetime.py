"""A router's life: listen, serve, drain, stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from router.config import Config
from router.control.monitor import EngineMonitor
from router.control.wiring import Wiring
from router.core.failure import Failure, Kind
from router.core.policy import Policy, Switch
from router.observe.cost import MixedCost
from router.observe.watch import HealthWatch
from router.proxy.endpoint import DataPort
from router.proxy.settings import Services
from router.server.listener import EmbeddedServer, serve

# How often the pair is evaluated when no request comes: a switch back waits for N to fall and time to pass.
TICK = 0.1
# How long requests that are being ended at the drain limit may take to say so to their clients.
END_LIMIT = 1.0


@dataclass(frozen=True, slots=True)
class Port:
    """A server and the socket it will listen on."""

    server: EmbeddedServer
    listener: socket.socket

    @property
    def number(self) -> int:
        """The port number that clients connect to."""
        number: int = self.listener.getsockname()[1]
        return number


@dataclass(slots=True)
class Current:
    """The configuration in force, and how it is read again.

    Attributes:
        config: what is in force.
        policy: the one that it names.
        shadowed: told of the switches of its shadow policy.
        unfit: that policy is of other engines than are there, so watermarks decide.
        reload: reads the file again; None without one.
        close_log: closes the log of decisions.
    """

    config: Config
    policy: Policy
    shadowed: Callable[[Switch], None]
    unfit: bool = False
    reload: Callable[[], bool] | None = None
    close_log: Callable[[], None] = lambda: None


class Router:
    """Everything that runs, and the order in which it starts and ends.

    Args:
        services: the data path's.
        data_port: its ASGI callable, which knows the requests that are being served.
        data, admin: the two listeners.
        monitors: one per engine.
        client: of the monitors.
        watch: logs changes of health.
        cost: sums up what being mixed costs.
        wiring: judges what the engines are.
        registry: of its metrics.
        current: the configuration in force.
        log: of what happens to the router itself.
    """

    def __init__(
        self,
        services: Services,
        data_port: DataPort,
        data: Port,
        admin: Port,
        monitors: Sequence[EngineMonitor],
        client: httpx.AsyncClient,
        watch: HealthWatch,
        cost: MixedCost,
        wiring: Wiring,
        registry: CollectorRegistry,
        current: Current,
        log: FilteringBoundLogger,
    ) -> None:
        self.services = services
        self.data = data
        self.admin = admin
        self._data_port = data_port
        self.monitors = monitors
        self._client = client
        self._watch = watch
        self._cost = cost
        self.wiring = wiring
        self.registry = registry
        self.current = current
        self._log = log
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen on both ports and begin to look after the engines."""
        self._tasks = [asyncio.create_task(monitor.run(), name="monitor") for monitor in self.monitors]
        self._tasks.append(asyncio.create_task(self._tick(), name="tick"))
        for port in (self.admin, self.data):
            self._tasks.append(await serve(port.server, port.listener))

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take nothing new, let open requests finish within the limit, end the rest visibly.

        Args:
            hurry: set to stop waiting.
        """
        self.services.draining = True
        self.data.server.stop_listening()
        limit = self.current.config.server.drain_timeout
        self._log.info("draining", in_flight=self.services.pair.ledger.n, limit=limit)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        while self._data_port.exchanges and loop.time() < deadline and not hurry.is_set():
            await asyncio.sleep(0.05)
        if self._data_port.exchanges:
            self._log.warning("drain limit reached", ended=len(self._data_port.exchanges))
            self._data_port.end_all(Failure(Kind.DRAIN))
            ended = loop.time() + END_LIMIT
            while self._data_port.exchanges and loop.time() < ended:
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Close everything; open requests are cut off."""
        for port in (self.data, self.admin):
            port.server.force_exit = True
            port.server.should_exit = True
        for task in self._tasks:
            if task.get_name() != "listener":
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.services.aborter.close()
        for link in self.services.engines.values():
            link.pool.close()
        await self._client.aclose()
        if self.services.tracer is not None:
            await asyncio.to_thread(self.services.tracer.close)
        self.current.close_log()
        self._log.info("stopped", open_leases=self.services.pair.ledger.n)

    def evaluate(self) -> None:
        """Let the pair look at this moment, and the log at what has become of the engines."""
        self.services.pair.evaluate()
        self._watch.check(self.services.clock())
        self._cost.tick()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.evaluate()
