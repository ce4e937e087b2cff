"""RouterProcess: the router as an operator runs it, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from . import limits
from .client import RawResponse, ask, request_bytes
from .metrics import Metrics, Scraper, scrape
from .waiting import until

Config = dict[str, Any]

# Thresholds out of reach, so that everything goes to the speculative engine until a test says otherwise.
DEFAULTS: Config = {
    "server": {"host": "127.0.0.1", "drain_timeout": "5s"},
    "admin": {"host": "127.0.0.1"},
    "policy": {"kind": "threshold", "high": 400, "low": 200, "dwell": "0s", "smoothing": "0s"},
    "breaker": {"failure_threshold": 5, "success_threshold": 2, "open_for": "500ms"},
    "health": {
        "ready": {"interval": "200ms", "timeout": "1s"},
        "deep": {"interval": "2s", "timeout": "5s"},
        "failure_threshold": 3,
        "success_threshold": 2,
    },
    "log": {"level": "info", "format": "text"},
}


def merged(base: Config, over: Config) -> Config:
    """`over` laid over `base`, mapping by mapping; lists and scalars are replaced."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def free_port() -> int:
    """A loopback port that nobody uses right now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RouterProcess:
    """Writes the config, starts `python -m router serve -c FILE`, and looks at it from outside."""

    def __init__(
        self, folder: Path, speculative_url: str, baseline_url: str, overrides: Config | None = None
    ) -> None:
        self.data_port = free_port()
        self.admin_port = free_port()
        pair = {"name": "default", "placement": "shared"}
        urls = {"speculative": {"url": speculative_url}, "baseline": {"url": baseline_url}}
        ports = {
            "server": {"port": self.data_port},
            "admin": {"port": self.admin_port},
            "pairs": [{**pair, **urls}],
        }
        self.config = merged(merged(DEFAULTS, ports), overrides or {})
        self.config_file = folder / "config.yaml"
        self.config_file.write_text(yaml.safe_dump(self.config, sort_keys=False))
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, *, ready: bool = True, environment: dict[str, str] | None = None) -> None:
        """Start; with `ready` wait until the data port says it is ready."""
        self._spawn(environment or {})
        if ready:
            await self.wait_ready()

    def _spawn(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "router", "serve", "-c", str(self.config_file)]
        with self.stdout_file.open("ab") as out, self.stderr_file.open("ab") as err:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
            )

    async def wait_ready(self, within: float = limits.READY_SECONDS) -> None:
        """Wait for 200 on /readyz."""
        deadline = time.monotonic() + within
        while await self.readiness() != 200:
            assert self.alive, f"exit code {self.exit_code}\n{self.log}"
            assert time.monotonic() < deadline, f"not ready within {within} s\n{self.log}"
            await asyncio.sleep(0.02)

    async def readiness(self) -> int | None:
        """Status of /readyz, None while nobody listens."""
        try:
            return (await ask(self.data_port, request_bytes("GET", "/readyz"), 5.0)).status
        except OSError:
            return None

    async def get(self, target: str, *, admin: bool = False, within: float = 5.0) -> RawResponse:
        """GET on the data or the admin port."""
        port = self.admin_port if admin else self.data_port
        return await ask(port, request_bytes("GET", target, host=f"127.0.0.1:{port}"), within)

    async def status(self) -> dict[str, Any]:
        """GET /admin/status."""
        response = await self.get("/admin/status", admin=True)
        assert response.status == 200, response.head.line
        return dict(response.json())

    async def metrics(self) -> Metrics:
        """One scrape."""
        return await scrape(self.admin_port)

    def scraper(self, every: float = 0.05) -> Scraper:
        """`async with router.scraper() as scraper:` scrapes in the background."""
        return Scraper(self.admin_port, every)

    @property
    def stdout_file(self) -> Path:
        """Where standard output goes."""
        return self._folder / "stdout.log"

    @property
    def stderr_file(self) -> Path:
        """Where standard error goes."""
        return self._folder / "stderr.log"

    @property
    def log(self) -> str:
        """Standard output and error so far."""
        return "".join(
            file.read_text(errors="replace") for file in (self.stdout_file, self.stderr_file) if file.exists()
        )

    @property
    def pid(self) -> int:
        """Process id."""
        assert self.process is not None, "not started"
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll() if self.process is not None else None

    @property
    def alive(self) -> bool:
        """Does the process run?"""
        return self.process is not None and self.process.poll() is None

    def rss_bytes(self) -> int:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None, "not started"
        self.process.send_signal(number)

    async def wait_exit(self, within: float) -> int:
        """Wait for the end of the process; returns its exit code."""
        await until(lambda: not self.alive, within, "exit of the router", every=0.02)
        assert self.exit_code is not None
        return self.exit_code

    async def terminate(self, within: float = 10.0) -> int:
        """SIGTERM and wait; kills it if it takes longer."""
        if self.alive:
            self.send_signal(signal.SIGTERM)
        try:
            return await self.wait_exit(within)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and reap it."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
