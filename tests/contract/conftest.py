"""Fixtures of the tests that run on simulated and on real engines, directly and through the router."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import uvloop

from router.core.words import Path
from tests.contract.backends import Backend, Engine, Pair, SglangBackend, SimBackend, loop_in_thread
from tests.contract.spot import Spot
from tests.sglang_cpu import install
from tests.support.leftovers import Errors, nothing_left
from tests.support.running import Running, paths_up, router_config, running


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The start of an engine counts as part of the first test that needs it."""
    for item in items:
        if item.get_closest_marker("sglang") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A failure shows the end of what the engines said."""
    report = yield
    backend = getattr(item, "funcargs", {}).get("backend")
    if report.failed and backend is not None:
        report.sections += [(f"log of the engine {name}", text) for name, text in backend.logs().items()]
    return report


@pytest.fixture(scope="session", params=["sim", pytest.param("sglang", marks=pytest.mark.sglang)])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """The kind of engine."""
    if request.param == "sim":
        with loop_in_thread() as loop:
            yield SimBackend(loop)
    else:
        if not install.installed():
            pytest.skip(f"SGLang is not installed: {install.obstacle() or '`make test-sglang` does it'}")
        yield SglangBackend(tmp_path_factory.mktemp("sglang"))


@pytest.fixture(scope="session")
def pair(backend: Backend) -> Iterator[Pair]:
    """Two engines with roomy limits, the same for all tests."""
    with backend.pair() as engines:
        yield engines


@pytest.fixture(scope="module")
def limited(backend: Backend) -> Iterator[Engine]:
    """An engine with every limit that there is."""
    with backend.limited() as engine:
        yield engine


@pytest.fixture
async def errors() -> AsyncIterator[Errors]:
    """Errors logged during the test; it fails if any are left in there."""
    async with nothing_left() as seen:
        yield seen


@pytest.fixture
async def router(pair: Pair, errors: Errors) -> AsyncIterator[Running]:
    """A router between the two engines."""
    async with running(between(pair)) as own:
        await paths_up(own, *Path)
        yield own


@pytest.fixture(params=[f"{via}-{path.value}" for via in ("direct", "router") for path in Path])
async def spot(request: pytest.FixtureRequest, pair: Pair, errors: Errors) -> AsyncIterator[Spot]:
    """Each engine, asked directly and through a router that sends everything to it."""
    via, path = request.param.split("-")
    engine = pair.engine(Path(path))
    if via == "direct":
        yield Spot(engine, engine.port, Path(path))
        return
    async with running(between(pair, policy={"kind": "pinned", "path": path})) as own:
        yield Spot(engine, own.data, Path(path), own)


@pytest.fixture(params=list(Path), ids=str)
def direct(request: pytest.FixtureRequest, pair: Pair) -> Spot:
    """Each engine, asked directly."""
    path: Path = request.param
    engine = pair.engine(path)
    return Spot(engine, engine.port, path)


def between(pair: Pair, **sections: Any) -> Any:
    """The configuration of a router between the two; its probes leave the engines their two cores."""
    urls = [f"http://127.0.0.1:{pair.engine(path).port}" for path in (Path.SPECULATIVE, Path.BASELINE)]
    health = {"ready": {"interval": "500ms", "timeout": "5s"}, "deep": {"interval": "30s", "timeout": "25s"}}
    return router_config(*urls, **{"health": health, "timeouts": {"connect": "10s"}} | sections)
