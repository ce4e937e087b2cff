"""GPUs in a file: what processes hold on them, and what is free. Memory of an ended process is free again.

The file is named by FAKE_GPUS. Both the fake engine and the fake NVML use it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "FAKE_GPUS"


@dataclass(frozen=True, slots=True)
class Held:
    """Memory of one process on one GPU."""

    gpu: int
    pid: int
    start: int
    name: str
    size: int

    @property
    def lives(self) -> bool:
        """Foreign processes are made up: their start is 0, and they live."""
        return self.start == 0 or start_of(self.pid) == self.start


def start_of(pid: int) -> int | None:
    """When a process was started; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class FakeGpus:
    """All GPUs of a machine that does not exist."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @staticmethod
    def of_environment() -> FakeGpus:
        """The ones that the environment names."""
        return FakeGpus(Path(os.environ[VARIABLE]))

    def make(self, sizes: list[int], name: str = "NVIDIA Fake") -> FakeGpus:
        """Empty GPUs of these sizes in bytes."""
        self.file.write_text(json.dumps({"name": name, "sizes": sizes, "held": []}))
        return self

    @contextlib.contextmanager
    def _state(self, *, change: bool) -> Iterator[dict[str, Any]]:
        with self.file.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            state = json.load(file)
            yield state
            if change:
                file.seek(0)
                file.truncate()
                json.dump(state, file)

    def occupy(self, gpu: int, size: int, pid: int = 4_000_001, name: str = "somebody-else") -> None:
        """A foreign process that nobody can end."""
        with self._state(change=True) as state:
            state["held"].append([gpu, pid, 0, name, size])

    def take(self, gpus: list[int], size: int, pid: int | None = None) -> bool:
        """Memory for a process (this one) on each of the GPUs; False and nothing taken if one has less."""
        pid = os.getpid() if pid is None else pid
        with self._state(change=True) as state:
            free = self._free(state)
            if any(free[gpu] < size for gpu in gpus):
                return False
            state["held"] += [[gpu, pid, start_of(pid), "fake-engine", size] for gpu in gpus]
            state["held"] = [row for row in state["held"] if Held(*row).lives]
            return True

    def free(self) -> list[int]:
        """Bytes by GPU."""
        with self._state(change=False) as state:
            return self._free(state)

    def held(self) -> list[Held]:
        """By living processes."""
        with self._state(change=False) as state:
            return [held for row in state["held"] if (held := Held(*row)).lives]

    @property
    def sizes(self) -> list[int]:
        """Bytes by GPU."""
        with self._state(change=False) as state:
            return list(state["sizes"])

    def _free(self, state: dict[str, Any]) -> list[int]:
        free = list(state["sizes"])
        for row in state["held"]:
            held = Held(*row)
            if held.lives:
                free[held.gpu] -= held.size
        return free
