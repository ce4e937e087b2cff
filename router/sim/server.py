"""Simulated engines on listening sockets: one, a pair in this process, or a pair until cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from random import Random
from types import TracebackType
from typing import Self, Unpack

import uvicorn

from router.core.words import Path
from router.sim.app import build_app
from router.sim.backend import Backend
from router.sim.driver import Driver
from router.sim.engine import SimEngine
from router.sim.gpu import SimGpu
from router.sim.params import SimOptions, SimParams
from router.sim.speed import EngineSpeed

_KEEP_ALIVE_SECONDS = 5  # SGLang's
_SHUTDOWN_SECONDS = 1
_LOOK_SECONDS = 0.02


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which belong to whoever runs the process; says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def drop(self) -> None:
        """Listen no more, and end every connection wherever it is."""
        for server in self.servers:
            server.close()
        while connections := list(self.server_state.connections):
            for connection in connections:
                connection.transport.close()
            await asyncio.sleep(_LOOK_SECONDS)


class SimulatedEngine:
    """One engine of a pair on its own socket. `stop` and `start` again to simulate a restart on the same
    port.
    """

    def __init__(self, path: Path, backend: Backend, host: str, port: int) -> None:
        self.path = path
        self.backend = backend
        self._host = host
        self._port = port
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        return f"http://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """The port it listens on (after `start`)."""
        return self._port

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        listener = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        self.backend.draining = self.backend.hung = False
        self.backend.closing.clear()
        config = uvicorn.Config(
            build_app(self.backend),
            # What the recorded server used: its spelling of headers, and no chunks for HTTP/1.0 clients.
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        await self._server.listening.wait()

    def begin_shutdown(self) -> None:
        """As after SIGTERM: /ready and /health say 503, everything else goes on until `stop`."""
        self.backend.draining = True

    async def terminate(self) -> None:
        """What SIGTERM does: `begin_shutdown`, and `stop` once nothing runs or waits any more."""
        self.begin_shutdown()
        while self.backend.engine.busy or any(self.backend.http_active.values()):
            await asyncio.sleep(_LOOK_SECONDS)
        await self.stop()

    async def crash(self, stall: float = 0.0) -> None:
        """Die without a word: for `stall` seconds nothing is said, then every connection ends where it is.

        0 is SIGKILL to the main process; after SIGKILL to its scheduler SGLang takes about 6 s to notice.
        """
        self.backend.hung = True
        await asyncio.sleep(stall)
        if self._server is not None:
            await self._server.drop()
        await self.stop()

    async def stop(self) -> None:
        """Abort what runs, close every connection, free the port."""
        if self._server is None or self._task is None:
            return
        self.backend.draining = True
        self.backend.closing.set()
        self.backend.abort(None)
        self._server.should_exit = True
        task, self._task, self._server = self._task, None, None
        await task


class SimulatedPair:
    """Two simulated engines in this process, listening while the `async with` block runs.

    Takes the fields of `SimParams` as keywords, or `params=`. Port 0 picks a free one.
    """

    def __init__(
        self,
        params: SimParams | None = None,
        *,
        host: str = "127.0.0.1",
        speculative_port: int = 0,
        baseline_port: int = 0,
        **options: Unpack[SimOptions],
    ) -> None:
        self.params = params if params is not None else SimParams(**options)
        self._host = host
        self._ports = {Path.SPECULATIVE: speculative_port, Path.BASELINE: baseline_port}
        self._engines: dict[Path, SimulatedEngine] = {}
        self._drivers: list[Driver] = []

    async def __aenter__(self) -> Self:
        profile = self.params.resolved_profile()
        pure = {path: self._pure_engine(path, profile.speed(path)) for path in Path}
        groups = [tuple(Path)] if self.params.shared else [(path,) for path in Path]
        for group in groups:
            driver = Driver(SimGpu({path: pure[path] for path in group}), self.params.time_scale)
            self._drivers.append(driver)
            for path in group:
                backend = Backend(path, self.params, driver)
                self._engines[path] = SimulatedEngine(path, backend, self._host, self._ports[path])
        try:
            for engine in self._engines.values():
                await engine.start()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(engine.stop() for engine in self._engines.values()))
        for driver in self._drivers:
            driver.close()

    def engine(self, path: Path) -> SimulatedEngine:
        """The engine of a path."""
        return self._engines[path]

    @property
    def speculative(self) -> SimulatedEngine:
        """The engine with speculation."""
        return self._engines[Path.SPECULATIVE]

    @property
    def baseline(self) -> SimulatedEngine:
        """The engine without."""
        return self._engines[Path.BASELINE]

    @property
    def speculative_url(self) -> str:
        """Base URL of the engine with speculation."""
        return self.speculative.url

    @property
    def baseline_url(self) -> str:
        """Base URL of the engine without."""
        return self.baseline.url

    @property
    def mixed_seconds(self) -> float:
        """Simulated seconds so far in which both engines of a shared GPU had work."""
        for driver in self._drivers:
            driver.catch_up()
        return sum(driver.gpu.mixed_seconds for driver in self._drivers)

    def set_accept_length(self, value: float) -> None:
        """Tokens per speculative step from now on, as if the workload had changed. Raises ValueError."""
        self.speculative.backend.engine.accept_length = value

    def _pure_engine(self, path: Path, speed: EngineSpeed) -> SimEngine:
        params = self.params
        engine = SimEngine(
            speed,
            Random(f"{params.seed}/{path.value}"),
            kv_tokens=params.kv_tokens,
            max_queued_requests=params.max_queued_requests,
        )
        if params.accept_length is not None and path is Path.SPECULATIVE:
            engine.accept_length = params.accept_length
        return engine


async def run_sim(
    params: SimParams,
    *,
    host: str = "127.0.0.1",
    speculative_port: int = 30001,
    baseline_port: int = 30002,
    on_ready: Callable[[SimulatedPair], None] | None = None,
) -> None:
    """Serve a pair until cancelled; `on_ready` is called once both listen. Raises ProfileError or OSError."""
    pair = SimulatedPair(params, host=host, speculative_port=speculative_port, baseline_port=baseline_port)
    async with pair:
        if on_ready is not None:
            on_ready(pair)
        await asyncio.Event().wait()
