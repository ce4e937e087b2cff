"""One SGLang server: started in a session of its own, ready by `/ready`, gone for good at the end."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.sglang_cpu.flags import Start
from tests.sglang_cpu.install import home

# Twenty seconds on two idle cores; minutes where other work shares them.
READY_SECONDS = 420.0
EXIT_SECONDS = 60.0
_POLL = 0.25
_LOG_TAIL = 6000


class EngineProcess:
    """A server on a free loopback port; its log is a file in `folder`."""

    def __init__(self, name: str, start: Start, folder: Path) -> None:
        self.name = name
        self.how = start
        self.port = free_port()
        self.log_file = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it; does not wait."""
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                self.how.command(home(), self.port),
                env=self.how.variables(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, within: float = READY_SECONDS) -> None:
        """Wait for 200 on `/ready`."""
        deadline = time.monotonic() + within
        while self._status("/ready") != 200:
            assert self.alive, f"{self.name} died with {self._code}\n{self.log}"
            assert time.monotonic() < deadline, f"{self.name} is not ready after {within:.0f} s\n{self.log}"
            time.sleep(_POLL)

    @property
    def pid(self) -> int:
        """The main process."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the main process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The end of its output."""
        return self.log_file.read_text(errors="replace")[-_LOG_TAIL:] if self.log_file.exists() else ""

    def kill_scheduler(self) -> None:
        """SIGKILL to the process that computes."""
        named = [pid for pid in _of_session(self.pid) if "scheduler" in _title(pid)]
        assert len(named) == 1, f"schedulers of {self.name}: {named}"
        os.kill(named[0], signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM to the main process."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_exit(self, within: float = EXIT_SECONDS) -> None:
        """Wait for the end of the main process."""
        assert self._process is not None, "not started"
        self._process.wait(within)

    def kill(self) -> None:
        """SIGKILL to everything that it ever started; returns when all of it is gone."""
        if self._process is None:
            return
        deadline = time.monotonic() + EXIT_SECONDS
        while pids := _of_session(self._process.pid):
            assert time.monotonic() < deadline, f"processes of {self.name} outlive SIGKILL: {pids}"
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.05)
        self._process.wait()

    @property
    def _code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def _status(self, target: str) -> int | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", target)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


@contextlib.contextmanager
def engines(folder: Path, **starts: Start) -> Iterator[dict[str, EngineProcess]]:
    """Servers by name, started side by side and ready; killed at the end, whatever happens."""
    started = {name: EngineProcess(name, start, folder) for name, start in starts.items()}
    try:
        for engine in started.values():
            engine.launch()
        for engine in started.values():
            engine.wait_ready()
        yield started
    finally:
        for engine in started.values():
            engine.kill()


def free_port() -> int:
    """A free port outside the range from which the system takes its own.

    SGLang binds it at the very end of its start; an ephemeral port could be somebody's by then.
    """
    for port in random.SystemRandom().sample(range(10_000, 20_000), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def _of_session(leader: int) -> list[int]:
    """Living processes of that session, zombies excluded."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, _, session = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                if int(session) == leader and state != "Z":
                    found.append(int(entry.name))
    return found


def _title(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""
