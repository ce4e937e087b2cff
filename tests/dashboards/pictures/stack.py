"""What the demo's compose file runs, as processes: engines on one simulated GPU, router, load, Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from router.calibration import dump_calibration
from router.core.calibration import Key
from router.core.words import Path as RoutePath
from router.core.words import Placement
from router.sim import load_profile
from router.sim.calibrated import calibration_of
from tests.cases.kit.router import RouterProcess, free_port
from tests.cases.kit.waiting import until
from tests.dashboards.prometheus import Prometheus

DEMO = Path("deploy/config/demo.yaml")
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything that runs."""

    router: RouterProcess
    prometheus: Prometheus
    decisions: Path


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Stack]:
    """Start it all under the demo's load; at the end nothing is left."""
    ports = {path: free_port() for path in RoutePath}
    decisions = folder / "decisions.jsonl"
    policy = await asyncio.to_thread(_policy, folder / "calibration.yaml")
    with contextlib.ExitStack() as stack:
        options = [word for path, port in ports.items() for word in (f"--{path.value}-port", str(port))]
        stack.enter_context(_process("-m", "router", "sim", "--profile", "strong", *options))
        urls = [f"http://127.0.0.1:{ports[path]}" for path in (RoutePath.SPECULATIVE, RoutePath.BASELINE)]
        own = {"admin": {"allowed_hosts": ["router"]}, "log": {"decisions": str(decisions)}, "policy": policy}
        router = RouterProcess(folder, *urls, own)
        stack.callback(router.kill)
        for port in ports.values():
            await until(partial(_listens, port), START_SECONDS, "listening engines", every=0.2)
        await router.start(ready=False)
        await router.wait_ready(START_SECONDS)
        prometheus = Prometheus(
            folder,
            {
                "router:29000": f"127.0.0.1:{router.admin_port}",
                "speculative:30001": f"127.0.0.1:{ports[RoutePath.SPECULATIVE]}",
                "baseline:30002": f"127.0.0.1:{ports[RoutePath.BASELINE]}",
            },
        )
        stack.callback(prometheus.stop)
        await until(prometheus.ready, START_SECONDS, "a ready Prometheus", every=0.2)
        stack.enter_context(_process("deploy/demo/load.py", "127.0.0.1", str(router.data_port)))
        yield Stack(router, prometheus, decisions)


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _policy(calibration: Path) -> dict[str, Any]:
    """Calibrated to the engines, so that every panel has something to show; the demo's limits otherwise."""
    made = calibration_of(load_profile("strong"))
    calibration.write_text(dump_calibration(replace(made, key=Key(placement=Placement.SHARED))))
    demo: dict[str, Any] = yaml.safe_load(DEMO.read_text())["policy"]
    return {**demo, "kind": "calibrated", "calibration": str(calibration)}


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
