"""The processes of a measurement, each on its core: the engine and the proxies."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.dataplane.procfs import cpu_seconds, rss_mb
from bench.dataplane.tools import Tools

START_LIMIT = 30.0

# One engine gets everything: N never reaches `high`, so nothing switches and both proxies just pass bytes on.
CONFIG = """\
server: {{host: 127.0.0.1, port: {port}, max_active: 4096}}
admin: {{port: {admin}}}
pairs:
  - name: default
    placement: shared
    speculative: {{url: "http://127.0.0.1:{speculative}"}}
    baseline: {{url: "http://127.0.0.1:{baseline}"}}
policy: {{high: 1000000, low: 1}}
"""


@dataclass(frozen=True, slots=True)
class Cores:
    """The proxies share one core, engine and load client the other."""

    proxy: int
    load: int


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy."""

    name: str
    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU that its processes have used."""
        return cpu_seconds(self.pid)

    def rss(self) -> float:
        """MB that its processes hold."""
        return rss_mb(self.pid)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that the kernel gives to outgoing connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            if port not in found and probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


@contextlib.contextmanager
def running(command: Sequence[str | Path], core: int, log: Path) -> Iterator[int]:
    """Run `command` on `core` for the length of the block; gives its process id."""
    with log.open("wb") as output:
        process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=output, stderr=output)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def engines(tools: Tools, cores: Cores) -> Iterator[tuple[int, int]]:
    """Two engine ports of one process."""
    first, second = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with running([tools.engine, str(first), str(second)], cores.load, log):
            wait_for(first, "/health", log)
            yield first, second


@contextlib.contextmanager
def spec_router(ports: tuple[int, int], cores: Cores) -> Iterator[Proxy]:
    """Our router, as `serve` starts it."""
    port, admin = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        config, log = Path(folder) / "config.yaml", Path(folder) / "log"
        config.write_text(CONFIG.format(port=port, admin=admin, speculative=ports[0], baseline=ports[1]))
        command = [sys.executable, "-m", "router", "serve", "-c", str(config)]
        with running(command, cores.proxy, log) as pid:
            wait_for(port, "/readyz", log)
            yield Proxy("spec-router", port, pid)


@contextlib.contextmanager
def sglang_router(tools: Tools, ports: tuple[int, int], cores: Cores) -> Iterator[Proxy]:
    """The peer, with the cheapest of its policies and no log of requests."""
    port, metrics = free_ports(2)
    urls = [f"http://127.0.0.1:{each}" for each in ports]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [
            *(str(tools.peer_python), "-m", "sglang_router.launch_router"),
            *("--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)),
            *("--worker-urls", *urls, "--policy", "round_robin", "--log-level", "warn"),
        ]
        with running(command, cores.proxy, log) as pid:
            wait_for(port, "/readiness", log)
            yield Proxy("sglang-router", port, pid)


def wait_for(port: int, target: str, log: Path) -> None:
    """Wait until `target` answers 200.

    Raises:
        RuntimeError: it does not, with the end of the process's log.
    """
    give_up = time.monotonic() + START_LIMIT
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < give_up:
        with (
            contextlib.suppress(OSError),
            opener.open(f"http://127.0.0.1:{port}{target}", timeout=2) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing is ready on port {port}:\n{log.read_text(errors='replace')[-2000:]}")


def two_cores() -> Cores:
    """The first two cores that this process may use.

    Raises:
        RuntimeError: there is only one.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise RuntimeError("the measurement needs two cores: one for the proxy, one for engine and load")
    return Cores(usable[0], usable[1])
