"""`spec-router bench` as a process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cases.kit.waiting import until

EXIT_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a run ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Of the output of `--json`."""
        found: list[dict[str, Any]] = json.loads(self.out)["cells"]
        return found


class BenchProcess:
    """One run, begun by `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *arguments: object) -> BenchProcess:
        """Start it; does not wait."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "router", "bench", *map(str, arguments)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def clients(self, count: int) -> Sequence[int]:
        """Process ids of its client processes, once there are so many."""
        await until(lambda: len(self._children()) == count, 20.0, f"{count} client processes")
        return self._children()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def ended(self) -> Done:
        """Wait for its end."""
        async with asyncio.timeout(EXIT_SECONDS):
            out, err = await self._process.communicate()
        assert self._process.returncode is not None
        return Done(self._process.returncode, out.decode(), err.decode())

    async def __aenter__(self) -> BenchProcess:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()

    def _children(self) -> list[int]:
        pid = self._process.pid
        try:
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except FileNotFoundError:
            return []


async def bench(*arguments: object) -> Done:
    """Run it to its end."""
    async with await BenchProcess.start(*arguments) as process:
        return await process.ended()


def alive(pid: int) -> bool:
    """Whether there is such a process, zombies excluded."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
