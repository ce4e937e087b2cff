"""The whole stack: two engines, the router, load that makes it switch, and Prometheus on top."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from router.calibration import dump_calibration
from router.core.calibration import Key
from router.core.words import Path, Placement
from router.sim import load_profile
from router.sim.calibrated import calibration_of
from tests.cases.kit.router import RouterProcess
from tests.dashboards.prometheus import Prometheus
from tests.soak.__main__ import client
from tests.soak.clients import Tally
from tests.soak.engines import EngineProcess

# Two scrapes, a rate interval of four, and a switch each way.
LOAD_SECONDS = 50.0
# Of any engines, as the profile's name is not that of the model that they serve.
KEY = Key(placement=Placement.SHARED)


async def _wave(router: RouterProcess) -> None:
    """Few clients, many, none: switches up and down, over and over until the time is up.

    Without a request in flight a switch has no price, so the way down is sure once the dwell is over.
    """
    end = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < end:
        for count, seconds in ((2, 5.0), (24, 7.0), (0, 5.0)):
            until = min(end, time.monotonic() + seconds)
            await asyncio.gather(
                *(client(router.data_port, random.Random(seed), Tally(), until) for seed in range(count))
            )
            await asyncio.sleep(until - time.monotonic())


@pytest.fixture(scope="package")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus after a while of load; load goes on while tests look."""
    folder = tmp_path_factory.mktemp("stack")
    calibration = folder / "calibration.yaml"
    calibration.write_text(dump_calibration(replace(calibration_of(load_profile("strong")), key=KEY)))
    engines = {path: EngineProcess(path) for path in Path}

    async def start() -> RouterProcess:
        await asyncio.gather(*(engine.start() for engine in engines.values()))
        router = RouterProcess(
            folder,
            engines[Path.SPECULATIVE].url,
            engines[Path.BASELINE].url,
            {
                "admin": {"allowed_hosts": ["router"]},
                "policy": {"kind": "calibrated", "calibration": str(calibration), "smoothing": "500ms"},
            },
        )
        await router.start()
        return router

    router = asyncio.run(start())
    server = Prometheus(
        folder,
        {
            "router:29000": f"127.0.0.1:{router.admin_port}",
            "speculative:30001": f"127.0.0.1:{engines[Path.SPECULATIVE].port}",
            "baseline:30002": f"127.0.0.1:{engines[Path.BASELINE].port}",
        },
    )
    load = threading.Thread(target=lambda: asyncio.run(_wave(router)))
    load.start()
    try:
        time.sleep(LOAD_SECONDS - 12)
        yield server
    finally:
        load.join()
        server.stop()
        router.kill()
        for engine in engines.values():
            engine.kill()
