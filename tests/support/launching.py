"""`spec-router launch` as an operator runs it, on GPUs that are a file and with engines that are fake."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import yaml

from router.config import load_config
from router.core.words import Path
from router.launch.plan import GpuMemory, Plan
from router.launch.request import read_request
from tests.cases.kit.router import free_port, merged
from tests.cases.kit.waiting import until
from tests.support.fake_gpus import FakeGpus, start_of
from tests.unit.launch.models import write_checkpoint

ROOT = FilePath(__file__).parents[2]
GIB = 1 << 30
MODEL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
}
MODEL_BYTES = 16_000_000_000
DRAFT_BYTES = 800_000_000
S, B = Path.SPECULATIVE, Path.BASELINE
# Far below what an operator wants, far above what the fake engine needs.
QUICK = {
    "stall": "20s",
    "settle": "100ms",
    "stop": "1s",
    "restart": {"delay": "100ms", "longest_delay": "1s"},
}


class Launcher:
    """A configuration, its GPUs and its engines' knobs; then the process.

    Args:
        folder: of this test.
        gpus: `COUNTxSIZE` in GiB.
        config: laid over the defaults.
        knobs: of the fake engines, by path; what they take follows from the plan.
    """

    def __init__(
        self,
        folder: FilePath,
        gpus: tuple[int, int] = (1, 80),
        config: dict[str, Any] | None = None,
        knobs: dict[str, dict[str, Any]] | None = None,
        foreign: dict[int, int] | None = None,
    ) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in ("data", "admin", "s", "sn", "b", "bn")}
        self.gpus = FakeGpus(folder / "gpus.json").make([gpus[1] * GIB] * gpus[0])
        for gpu, size in (foreign or {}).items():
            self.gpus.occupy(gpu, size)
        self.config_file = folder / "config.yaml"
        self.state = folder / "state"
        self.config = merged(self._defaults(gpus[0]), config or {})
        self.config_file.write_text(yaml.safe_dump(self.config))
        self.knobs_file = folder / "knobs.json"
        self._knobs = knobs or {}
        self.set_knobs({})
        self.process: subprocess.Popen[bytes] | None = None
        self._out = folder / "out.log"
        self._err = folder / "err.log"

    def _defaults(self, tp: int) -> dict[str, Any]:
        ports = self.ports
        model = write_checkpoint(self.folder / "model", MODEL, MODEL_BYTES)
        draft = write_checkpoint(self.folder / "draft", {**MODEL, "num_hidden_layers": 1}, DRAFT_BYTES)
        return {
            "server": {"host": "127.0.0.1", "port": ports["data"], "drain_timeout": "2s"},
            "admin": {"port": ports["admin"]},
            "pairs": [
                {
                    "speculative": {"url": f"http://127.0.0.1:{ports['s']}"},
                    "baseline": {"url": f"http://127.0.0.1:{ports['b']}"},
                }
            ],
            "policy": {"high": 8, "low": 3},
            "health": {"ready": {"interval": "200ms"}},
            "launch": {
                "model": str(model),
                "draft": str(draft),
                "tp": tp,
                "context": 8192,
                "ports": {
                    "speculative": {"http": ports["s"], "nccl": ports["sn"]},
                    "baseline": {"http": ports["b"], "nccl": ports["bn"]},
                },
                "sglang": {"python": str(self._interpreter())},
                "start": {"folder": str(self.state), **QUICK},
            },
        }

    def _interpreter(self) -> FilePath:
        """Looks like a Python with sglang: `-m sglang.launch_server` runs the fake engine."""
        script = self.folder / "python"
        script.write_text(
            f'#!/bin/sh\nshift 2\ncd "{ROOT}"\nexec "{sys.executable}" -m tests.support.fake_engine "$@"\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return script

    @property
    def plan(self) -> Plan:
        """What the configuration comes to on the GPUs as they are now."""
        config = load_config(self.config_file, os.environ)
        assert config.launch is not None
        free = self.gpus.free()
        gpus = tuple(
            GpuMemory(index, "NVIDIA Fake", size, free[index]) for index, size in enumerate(self.gpus.sizes)
        )
        placement = config.pairs[0].placement
        found = read_request(config.launch, placement, None, lambda: gpus).plan()
        assert isinstance(found, Plan), found.reason
        return found

    def set_knobs(self, knobs: dict[str, dict[str, Any]]) -> None:
        """From the next start on; on top of those of the beginning."""
        self._knobs = merged(self._knobs, knobs)
        try:
            bytes_taken = self._taken()
        except AssertionError:
            bytes_taken = {}
        self.knobs_file.write_text(json.dumps(merged(bytes_taken, self._knobs)))

    def _taken(self) -> dict[str, Any]:
        """An engine as it was planned, which uses six tenths of what is set aside for it."""
        taken = {}
        for engine in self.plan.engines:
            own = engine.fixed
            taken[engine.path.value] = {
                "context": int(own.context * 0.8),
                "weights": int(own.weights * 0.995),
                "draft": int(own.draft * 0.995),
                "early": int(own.headroom * 0.4),
                "late": int(own.headroom * 0.2),
                "cell": engine.cell.budget,
                "draft_cell": engine.cell.excess,
            }
        return taken

    def start(self, *flags: str, module: str = "router", terminal: int | None = None) -> None:
        """Run it; with a terminal (a pseudo-terminal's slave) as the program in its foreground."""
        env = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'tests/support/fake_nvml'}:{ROOT}",
            "FAKE_GPUS": str(self.gpus.file),
            "FAKE_ENGINE": str(self.knobs_file),
        }
        command = [sys.executable, "-m", module, "launch", "-c", str(self.config_file), *flags]
        if terminal is not None:
            # setsid -c makes standard input the controlling terminal.
            self.process = subprocess.Popen(
                ["setsid", "-c", *command], stdin=terminal, stdout=terminal, stderr=terminal, env=env
            )
            return
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env
            )

    @property
    def pid(self) -> int:
        """Of the launcher."""
        assert self.process is not None
        return self.process.pid

    @property
    def said(self) -> str:
        """On standard output and error, together."""
        return "".join(file.read_text() for file in (self._out, self._err) if file.exists())

    @property
    def printed(self) -> str:
        """On standard output."""
        return self._out.read_text()

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self.process.poll() if self.process else None

    async def says(self, text: str, within: float = 45.0) -> float:
        """Wait for it to be said; returns the seconds waited."""
        return await self._while_running(lambda: text in self.said, within, text)

    async def serves(self, within: float = 60.0) -> None:
        """Wait until the router's data port is ready."""
        await self._while_running(lambda: self.router_status() == 200, within, "a ready router")

    async def _while_running(self, condition: Any, within: float, what: str) -> float:
        try:
            return await until(lambda: condition() or self.code is not None, within, what, every=0.03)
        finally:
            assert condition(), f"{what} (exit code {self.code})\n{self.said}"

    async def ends(self, within: float = 30.0) -> int:
        """Wait for the end; returns the exit code."""
        try:
            await until(lambda: self.code is not None, within, "the launcher's end", every=0.03)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.said}") from None
        assert self.code is not None
        return self.code

    def signal(self, number: signal.Signals) -> None:
        """To the launcher only."""
        os.kill(self.pid, number)

    def router_status(self, path: str = "/readyz") -> int | None:
        """HTTP status of the data port, None while nobody listens."""
        answer = ask(self.ports["data"], "GET", path)
        return None if answer is None else answer[0]

    def engine(self, path: Path) -> dict[str, Any]:
        """What a running fake engine says of itself."""
        answer = ask(self.ports[path.value[0]], "GET", "/fake")
        assert answer is not None, f"{path} does not answer\n{self.said}"
        return dict(answer[1])

    def engine_answers(self, path: Path) -> bool:
        """Whether somebody listens there."""
        return ask(self.ports[path.value[0]], "GET", "/fake") is not None

    def kill_engine(self, path: Path, code: int = 7, says: str = "") -> None:
        """Have an engine die by itself."""
        ask(self.ports[path.value[0]], "POST", "/fake/die", {"code": code, "says": says})

    def starts(self, path: Path | None = None) -> list[dict[str, Any]]:
        """Every start of an engine so far."""
        file = self.folder / "starts.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [row for row in rows if path is None or row["path"] == path.value]

    def marked(self) -> list[int]:
        """Living processes that the launcher started, by the test's own file in their environment."""
        wanted = f"FAKE_ENGINE={self.knobs_file}".encode()
        noted = self.folder / "workers"
        workers = {int(pid) for pid in noted.read_text().split()} if noted.exists() else set()
        return [pid for pid in _pids() if (pid in workers or wanted in _environment(pid)) and start_of(pid)]

    def nothing_left(self) -> None:
        """No process, no memory, no port. Raises AssertionError."""
        left = [pid for pid in self.marked() if pid != self.pid]
        assert not left, [FilePath(f"/proc/{pid}/cmdline").read_text() for pid in left]
        assert not [held for held in self.gpus.held() if held.start], self.gpus.held()
        for port in self.ports.values():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                probe.listen(1)

    def clean(self) -> None:
        """Kill everything that a failed test left."""
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        if self.process:
            self.process.kill()
            self.process.wait()


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any] | None:
    """One HTTP exchange; None if nobody listens, or it breaks off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _environment(pid: int) -> list[bytes]:
    try:
        return FilePath(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
