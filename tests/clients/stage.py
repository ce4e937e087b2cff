"""Two engines, a router before each of them, and clients that are run against both ways in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from router.core.words import Path
from tests.cases.kit.metrics import Metrics
from tests.cases.kit.quiet import assert_clean_log
from tests.cases.kit.router import Config, RouterProcess, merged
from tests.clients import install

HERE = File(__file__).parent
CLIENT_SECONDS = 240.0
QUIET_SECONDS = 10.0
# Probes that leave two cores to the engines; the gauges are what the defaults make of them.
CALM: Config = {
    "health": {"ready": {"interval": "1s", "timeout": "5s"}, "deep": {"interval": "30s", "timeout": "25s"}},
    "timeouts": {"connect": "10s"},
}
Seen = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of engine.

    Attributes:
        model: what the engines serve.
        long: tokens that take an engine much longer than noticing that a client left.
        engines: URLs by path.
        routers: by path, each sending everything to that path.
    """

    model: str
    long: int
    engines: Mapping[Path, str]
    routers: Mapping[Path, RouterProcess]

    def direct(self, path: Path) -> str:
        """URL of the engine."""
        return self.engines[path]

    def routed(self, path: Path) -> str:
        """URL of the router before that engine."""
        return f"http://127.0.0.1:{self.routers[path].data_port}"

    def ways(self, path: Path) -> tuple[str, str]:
        """Both."""
        return self.direct(path), self.routed(path)

    def observe(self, *command: str) -> Seen:
        """Run a client against all ways in; observations by `direct-PATH` and `routed-PATH`."""
        targets = [
            {"name": f"{name}-{path}", "url": url, "engine": self.engines[path]}
            for path in Path
            for name, url in zip(("direct", "routed"), self.ways(path), strict=True)
        ]
        settings = json.dumps({"model": self.model, "long": self.long, "targets": targets})
        said = run([part if part != "SETTINGS" else settings for part in command])
        return {name: dict(cases) for name, cases in json.loads(said).items()}

    def metrics(self, path: Path) -> Metrics:
        """One scrape of that path's router."""
        return asyncio.run(self.routers[path].metrics())

    def cancelled(self, path: Path) -> int:
        """Requests whose client left, so far, as the router counts them; waits until nothing is in flight."""
        deadline = time.monotonic() + QUIET_SECONDS
        while (metrics := self.metrics(path)).sum("in_flight"):
            assert time.monotonic() < deadline, "requests stay in flight"
            time.sleep(0.1)
        return int(metrics.sum("requests_total", outcome="cancelled"))

    def assert_sound(self) -> None:
        """The routers live, hold nothing, and wrote no traceback."""
        for path, router in self.routers.items():
            assert router.alive, router.log
            self.cancelled(path)
            assert_clean_log(router.log)


@contextlib.contextmanager
def stage(folder: File, model: str, long: int, engines: Mapping[Path, str]) -> Iterator[Stage]:
    """Routers before these engines."""
    routers = {}
    try:
        for path in Path:
            own = folder / path.value
            own.mkdir()
            pinned: Config = {"policy": {"kind": "pinned", "path": path.value}}
            config = CALM if path is Path.SPECULATIVE else merged(CALM, pinned)
            urls = engines[Path.SPECULATIVE], engines[Path.BASELINE]
            routers[path] = RouterProcess(own, *urls, config)
            asyncio.run(routers[path].start())
        made = Stage(model, long, engines, routers)
        yield made
        made.assert_sound()
    finally:
        for router in routers.values():
            asyncio.run(router.terminate())


def run(command: list[str], within: float = CLIENT_SECONDS, codes: tuple[int, ...] = (0,)) -> str:
    """Standard output of a client's process."""
    variables = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LANGSMITH_TRACING": "false",
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode in codes, f"exit code {done.returncode}\n{done.stderr[-6000:]}"
    return done.stdout


def python(program: str, *arguments: str) -> list[str]:
    """Command line of a program in the clients' environment."""
    return [str(install.interpreter()), str(HERE / "programs" / f"{program}.py"), *arguments]
