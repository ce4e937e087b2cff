"""Fixtures of the fault tests: engines A (speculative) and B (baseline), and routers between them.

All of these tests share one event loop, so that a module's engines and router can outlive a single test.
A module sets `CONFIG = {...}` to lay something over the router's config; its tests then share `router`.
A module's own async fixtures need `@pytest_asyncio.fixture(loop_scope="session")` to be on that loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from .kit.engine import FakeEngine
from .kit.quiet import assert_clean_log
from .kit.router import Config, RouterProcess, merged

HERE = Path(__file__).parent
RouterFactory = Callable[..., Awaitable[RouterProcess]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long or needs much memory; left out of the ordinary run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    one_loop = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(one_loop, append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def module_engines() -> AsyncIterator[tuple[FakeEngine, FakeEngine]]:
    """The two engines of a module; tests use `a` and `b`."""
    async with FakeEngine("A", speculative=True) as a, FakeEngine("B", speculative=False) as b:
        yield a, b


@pytest_asyncio.fixture(loop_scope="session")
async def engines(
    module_engines: tuple[FakeEngine, FakeEngine],
) -> AsyncIterator[tuple[FakeEngine, FakeEngine]]:
    """A and B in their default state; fails the test if a script raised."""
    for engine in module_engines:
        engine.reset()
    yield module_engines
    for engine in module_engines:
        errors = list(engine.errors)
        if engine.open_requests():  # left by a failed test
            engine.reset_connections()
        engine.up()
        engine.reset()
        assert not errors, f"scripts of {engine.name} raised: {errors!r}"


@pytest.fixture
def a(engines: tuple[FakeEngine, FakeEngine]) -> FakeEngine:
    """The speculative engine: picked while few requests are in flight."""
    return engines[0]


@pytest.fixture
def b(engines: tuple[FakeEngine, FakeEngine]) -> FakeEngine:
    """The baseline engine: picked while many are."""
    return engines[1]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def module_router(
    request: pytest.FixtureRequest,
    module_engines: tuple[FakeEngine, FakeEngine],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RouterProcess]:
    """The router of a module; tests use `router`."""
    config: Config = getattr(request.module, "CONFIG", {})
    a, b = module_engines
    router = RouterProcess(tmp_path_factory.mktemp("router"), a.url, b.url, config)
    try:
        await router.start()
        yield router
    finally:
        router.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def router(
    module_router: RouterProcess, engines: tuple[FakeEngine, FakeEngine]
) -> AsyncIterator[RouterProcess]:
    """The module's router, ready; fails the test that makes it die or write a traceback."""
    await module_router.wait_ready()
    log_from = len(module_router.log)
    yield module_router
    assert module_router.alive, f"the router died: {module_router.exit_code}\n{module_router.log[-6000:]}"
    assert_clean_log(module_router.log[log_from:])


@pytest_asyncio.fixture(loop_scope="session")
async def router_factory(
    request: pytest.FixtureRequest,
    engines: tuple[FakeEngine, FakeEngine],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RouterFactory]:
    """`await router_factory({...})` starts a router of the test's own between A and B."""
    started: list[RouterProcess] = []
    base: Config = getattr(request.module, "CONFIG", {})

    async def make(config: Config | None = None, *, start: bool = True, ready: bool = True) -> RouterProcess:
        a, b = engines
        folder = tmp_path_factory.mktemp("router")
        router = RouterProcess(folder, a.url, b.url, merged(base, config or {}))
        started.append(router)
        if start:
            await router.start(ready=ready)
        return router

    yield make
    for router in started:
        router.kill()
