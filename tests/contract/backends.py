"""The two kinds of engine that the same tests run against: simulated ones and real ones.

A backend hands out engines as context managers, since a test that kills one wants its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Protocol, TypeVar

from router.core.words import Path
from router.sim.server import SimulatedEngine, SimulatedPair
from tests.sglang_cpu.flags import CONTEXT, MODEL, POOL, RUNNING, Start
from tests.sglang_cpu.process import EngineProcess, engines

T = TypeVar("T")

KEY = "sk-engine"
# An engine with every limit that can be reached on purpose. Its timeouts are what the tests wait for.
LIMITED_CONTEXT = 8192
LIMITED_POOL = 4000
LIMITED_SLOTS = 2
WAITING_SECONDS = 2.5
RUNNING_SECONDS = 6.0


class Engine(Protocol):
    """One engine: where it listens, and how it can be ended. The steps return at once."""

    @property
    def port(self) -> int:
        """Its port."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill_scheduler(self) -> None:
        """SIGKILL to what computes; HTTP lives on for some seconds."""

    def kill(self) -> None:
        """SIGKILL to the whole."""

    def exited(self) -> bool:
        """Whether nothing of it is left."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two engines of one model."""

    speculative: Engine
    baseline: Engine

    def engine(self, path: Path) -> Engine:
        """The engine of a path."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline


class Backend(Protocol):
    """A kind of engine."""

    name: str

    def pair(self) -> contextlib.AbstractContextManager[Pair]:
        """A pair with roomy limits."""

    def limited(self) -> contextlib.AbstractContextManager[Engine]:
        """A plain engine with every limit of the constants above, and `KEY`."""

    def victims(self, count: int) -> contextlib.AbstractContextManager[list[Engine]]:
        """Plain engines to kill."""

    def logs(self) -> Mapping[str, str]:
        """What the engines said, by name."""


class SimBackend:
    """Simulated engines on an event loop in a thread of their own."""

    name = "sim"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @contextlib.contextmanager
    def pair(self) -> Iterator[Pair]:
        """See `Backend`."""
        roomy = {"context_length": CONTEXT, "kv_tokens": POOL, "max_running_requests": RUNNING}
        with self._serve(**roomy) as pair:
            yield Pair(*(_SimEngine(self._loop, pair.engine(path)) for path in Path))

    @contextlib.contextmanager
    def limited(self) -> Iterator[Engine]:
        """See `Backend`."""
        limits: dict[str, Any] = {
            "context_length": LIMITED_CONTEXT,
            "kv_tokens": LIMITED_POOL,
            "max_running_requests": LIMITED_SLOTS,
            "max_queued_requests": LIMITED_SLOTS,
            "api_key": KEY,
            "waiting_timeout": WAITING_SECONDS,
            "running_timeout": RUNNING_SECONDS,
        }
        with self._serve(**limits) as pair:
            yield _SimEngine(self._loop, pair.baseline)

    @contextlib.contextmanager
    def victims(self, count: int) -> Iterator[list[Engine]]:
        """See `Backend`."""
        with contextlib.ExitStack() as stack:
            pairs = [stack.enter_context(self._serve(context_length=CONTEXT)) for _ in range(count)]
            yield [_SimEngine(self._loop, pair.baseline) for pair in pairs]

    def logs(self) -> Mapping[str, str]:
        """See `Backend`."""
        return {}

    @contextlib.contextmanager
    def _serve(self, **options: Any) -> Iterator[SimulatedPair]:
        async def make() -> SimulatedPair:
            pair = SimulatedPair(
                model=MODEL, shared=False, time_scale=2, accept_length=1.8, health_seconds=1.0, **options
            )
            return await pair.__aenter__()

        pair = _within(self._loop, make())
        try:
            yield pair
        finally:
            _within(self._loop, pair.__aexit__(None, None, None))


class _SimEngine:
    """See `Engine`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: SimulatedEngine) -> None:
        self._loop = loop
        self._engine = engine
        self._ending: concurrent.futures.Future[None] | None = None

    @property
    def port(self) -> int:
        return self._engine.port

    def terminate(self) -> None:
        self._end(self._engine.terminate())

    def kill_scheduler(self) -> None:
        self._end(self._engine.crash(stall=1.0))

    def kill(self) -> None:
        self._end(self._engine.crash())

    def exited(self) -> bool:
        return self._ending is not None and self._ending.done()

    def _end(self, step: Coroutine[Any, Any, None]) -> None:
        self._ending = asyncio.run_coroutine_threadsafe(step, self._loop)


class SglangBackend:
    """Real engines, each a process group of its own."""

    name = "sglang"

    def __init__(self, folder: FilePath) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def pair(self) -> Iterator[Pair]:
        """See `Backend`."""
        with engines(self._folder, speculative=Start(speculative=True), baseline=Start()) as started:
            yield Pair(*(_RealEngine(started[path.value]) for path in Path))

    @contextlib.contextmanager
    def limited(self) -> Iterator[Engine]:
        """See `Backend`."""
        start = Start(
            context=LIMITED_CONTEXT,
            pool=LIMITED_POOL,
            running=LIMITED_SLOTS,
            queued=LIMITED_SLOTS,
            api_key=KEY,
            environment={
                "SGLANG_REQ_WAITING_TIMEOUT": str(WAITING_SECONDS),
                "SGLANG_REQ_RUNNING_TIMEOUT": str(RUNNING_SECONDS),
            },
        )
        with engines(self._folder, limited=start) as started:
            yield _RealEngine(started["limited"])

    @contextlib.contextmanager
    def victims(self, count: int) -> Iterator[list[Engine]]:
        """See `Backend`."""
        starts = {f"victim{number}": Start() for number in range(count)}
        with engines(self._folder, **starts) as started:
            yield [_RealEngine(engine) for engine in started.values()]

    def logs(self) -> Mapping[str, str]:
        """See `Backend`."""
        return {file.stem: file.read_text(errors="replace")[-4000:] for file in self._folder.glob("*.log")}


class _RealEngine:
    """See `Engine`."""

    def __init__(self, process: EngineProcess) -> None:
        self._process = process

    @property
    def port(self) -> int:
        return self._process.port

    def terminate(self) -> None:
        self._process.terminate()

    def kill_scheduler(self) -> None:
        self._process.kill_scheduler()

    def kill(self) -> None:
        self._process.kill()

    def exited(self) -> bool:
        return not self._process.alive


@contextlib.contextmanager
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs while the block does, so that engines outlive a test's own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="simulated engines")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _within(loop: asyncio.AbstractEventLoop, step: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(step, loop).result(30)
