"""One simulated engine per process, so that it can be killed and started again on its port."""

from __future__ import annotations

import socket
import subprocess
import sys

from router.core.words import Path
from tests.cases.kit.router import free_port
from tests.cases.kit.waiting import until


class EngineProcess:
    """`spec-router sim` of which only the engine of `path` is used; `profile` is a name or a file."""

    def __init__(self, path: Path, profile: object = "strong") -> None:
        self.path = path
        self._profile = str(profile)
        self.port = free_port()
        self._other = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it and wait until it listens."""
        self._spawn()
        await until(self._listens, 20.0, f"start of the {self.path.value} engine", every=0.05)

    def _spawn(self) -> None:
        mine, other = f"--{self.path.value}-port", f"--{self.path.other.value}-port"
        command = [sys.executable, "-m", "router", "sim", "--profile", self._profile, "--seed", "7"]
        self._process = subprocess.Popen(
            [*command, mine, str(self.port), other, str(self._other)], stdout=subprocess.DEVNULL
        )

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1.0).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, and reap it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
