"""A scripted engine behind a mock transport, and what a monitor is made of."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import httpx
import structlog

from router.control.client import Endpoint
from router.control.monitor import EngineMonitor, Rhythm
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.identity import Told
from router.core.load import EngineLoad, Readings
from tests.support import FakeClock

Reply = int | httpx.Response | Exception | Callable[[httpx.Request], Awaitable[httpx.Response]]

LOADS = {"version": "0.5.23", "loads": [{"num_running_reqs": 2, "num_waiting_reqs": 1, "token_usage": 0.5}]}
METRICS = 'sglang:generation_tokens_total{model_name="m"} 100.0\nsglang:spec_accept_length{tp_rank="0"} 2.5\n'


def refused() -> httpx.ConnectError:
    """What httpx raises when nobody listens at any of a name's addresses."""
    causes = [ConnectionRefusedError(111, "Connection refused") for _ in range(2)]
    attempts = OSError("All connection attempts failed")
    attempts.__cause__ = ExceptionGroup("multiple connection attempts failed", causes)
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = attempts
    return error


class ScriptedEngine:
    """Answers each route with what the test put into `routes`; `all_routes` overrides all of them."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.all_routes: Reply | None = None
        self.routes: dict[str, Reply] = {
            "/ready": 200,
            "/health": 200,
            "/v1/loads": httpx.Response(200, json=LOADS),
            "/metrics": httpx.Response(200, text=METRICS),
            "/server_info": httpx.Response(
                200, json={"version": "0.5.23", "speculative_algorithm": "EAGLE3"}
            ),
        }

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.routes.get(request.url.path, 404) if self.all_routes is None else self.all_routes
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, int):
            return httpx.Response(reply, stream=httpx.ByteStream(b""))
        if isinstance(reply, httpx.Response):
            stream = httpx.ByteStream(reply.content)
            return httpx.Response(reply.status_code, headers=reply.headers, stream=stream)
        return await reply(request)

    def asked(self) -> list[str]:
        """The paths asked since the last call."""
        paths = [request.url.path for request in self.requests]
        self.requests.clear()
        return paths

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self))


class Sleeper:
    """A sleep that ends when the test lets time pass."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._asleep: deque[tuple[float, asyncio.Future[None]]] = deque()

    async def __call__(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._asleep.append((self._clock() + seconds, future))
        await future

    async def settle(self, sleepers: int) -> None:
        """Wait until so many are asleep."""
        async with asyncio.timeout(5.0):
            while len(self._asleep) != sleepers:
                await asyncio.sleep(0)

    async def advance(self, seconds: float, sleepers: int) -> None:
        """Let time pass, wake those who are due and wait until `sleepers` are asleep again."""
        now = self._clock.advance(seconds)
        due = [entry for entry in self._asleep if entry[0] <= now]
        for entry in due:
            self._asleep.remove(entry)
            entry[1].set_result(None)
        await self.settle(sleepers)


class Bench:
    """One monitor with everything around it under control."""

    def __init__(
        self, engine: ScriptedEngine, *, api_key: str | None = None, rhythm: Rhythm | None = None
    ) -> None:
        self.engine = engine
        self.clock = FakeClock()
        self.sleeper = Sleeper(self.clock)
        self.health = EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2))
        self.readings = Readings(self.clock)
        self.changes = 0
        self.loads: list[EngineLoad | None] = []
        self.told: list[Told] = []
        self.client = engine.client()
        self.monitor = EngineMonitor(
            Endpoint("http://engine-host:30001", api_key),
            self.client,
            self.health,
            self.readings,
            rhythm or Rhythm(),
            self.clock,
            self.sleeper,
            self._changed,
            self.loads.append,
            self.told.append,
            structlog.get_logger(),
        )

    def _changed(self) -> None:
        self.changes += 1
