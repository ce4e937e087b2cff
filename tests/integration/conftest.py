"""Fixtures of the tests of a running router.

Every test runs on the event loop that `serve` uses, those of the upstream client also on asyncio's own, and
must leave nothing behind: no open lease, no connection in use, no task, no error in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from router.sim.server import SimulatedPair
from tests.cases.kit.engine import FakeEngine
from tests.support.leftovers import Errors, nothing_left
from tests.support.running import Running, router_config, running

HERE = Path(__file__).parent
RouterFactory = Callable[..., Awaitable[Running]]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    if item.path.name.startswith("test_upstream"):
        factories["asyncio"] = asyncio.new_event_loop
    return factories


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # anyio drops a connection without closing it when a probe is cancelled in the moment it stands, as may
    # happen when a router stops. It has not begun to read by then; whatever the router itself opens has.
    probe = pytest.mark.filterwarnings(
        "ignore:unclosed resource <TCPTransport closed=False reading=False:ResourceWarning"
    )
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(probe)


@pytest.fixture(autouse=True)
async def errors() -> AsyncIterator[Errors]:
    """Errors logged during the test; it fails if any are left in there."""
    async with nothing_left() as seen:
        yield seen


@pytest.fixture
async def start(errors: Errors, engines: tuple[FakeEngine, FakeEngine]) -> AsyncIterator[RouterFactory]:
    """`await start(engine, engine, policy={...})`: a router between two engines, told by URL or by object.

    A test names the fixture of its engines first: routers must be found empty while those still run.
    """
    async with AsyncExitStack() as stack:

        async def make(speculative: Any, baseline: Any, *, ready: bool = True, **sections: Any) -> Running:
            urls = [getattr(engine, "url", engine) for engine in (speculative, baseline)]
            return await stack.enter_async_context(running(router_config(*urls, **sections), ready=ready))

        yield make


@pytest.fixture
async def engines(errors: Errors) -> AsyncIterator[tuple[FakeEngine, FakeEngine]]:
    """Two scripted engines, speculative and baseline."""
    async with FakeEngine("A", speculative=True) as a, FakeEngine("B", speculative=False) as b:
        yield a, b
        assert not a.errors + b.errors, a.errors + b.errors


@pytest.fixture
def a(engines: tuple[FakeEngine, FakeEngine]) -> FakeEngine:
    """The speculative scripted engine."""
    return engines[0]


@pytest.fixture
def b(engines: tuple[FakeEngine, FakeEngine]) -> FakeEngine:
    """The baseline scripted engine."""
    return engines[1]


@pytest.fixture
async def sims(errors: Errors) -> AsyncIterator[SimulatedPair]:
    """Two simulated engines, 50 times as fast as life."""
    async with SimulatedPair(time_scale=50, health_seconds=0.05, disconnect_poll=0.1) as pair:
        yield pair


@pytest.fixture
async def router(start: RouterFactory, a: FakeEngine, b: FakeEngine) -> Running:
    """A router with default limits between the scripted engines."""
    return await start(a, b)
