"""Simulated and real engines with routers before them; the clients are in an environment of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from router.core.words import Path
from tests.clients import install
from tests.clients.stage import Stage, stage
from tests.sglang_cpu import install as sglang
from tests.sglang_cpu.flags import MODEL, Start
from tests.sglang_cpu.process import engines
from tests.soak.engines import EngineProcess

# Two minutes for the simulated engine; nearly all that the real one's context holds.
SIM_LONG, SGLANG_LONG = 20_000, 1_900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The start of engines, and slow imports of clients, count as part of a test."""
    for item in items:
        if "tests/clients/" in item.nodeid and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    if not install.installed():
        pytest.skip("the clients are not installed: `make test-clients` does it")


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Simulated engines, each a process."""
    started = {path: EngineProcess(path) for path in Path}
    try:
        for engine in started.values():
            asyncio.run(engine.start())
        urls = {path: engine.url for path, engine in started.items()}
        with stage(tmp_path_factory.mktemp("simulated"), "sim", SIM_LONG, urls) as made:
            yield made
    finally:
        for engine in started.values():
            engine.kill()


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Real engines on CPUs, one with EAGLE-3."""
    if not sglang.installed():
        pytest.skip(f"SGLang is not installed: {sglang.obstacle() or '`make sglang` does it'}")
    folder = tmp_path_factory.mktemp("real")
    with engines(folder, speculative=Start(speculative=True), baseline=Start()) as started:
        urls = {path: f"http://127.0.0.1:{started[path.value].port}" for path in Path}
        with stage(folder, MODEL, SGLANG_LONG, urls) as made:
            yield made


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.sglang)])
def engines_and_routers(request: pytest.FixtureRequest) -> Stage:
    """Each kind of engine."""
    made: Stage = request.getfixturevalue(request.param)
    return made
