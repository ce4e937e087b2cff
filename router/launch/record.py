"""The launcher's note of what it started, and what an earlier launcher left behind.

The note is a file in the launcher's folder; a lock beside it tells whether its writer lives. A process is
taken for our own only if the note names it with its start time, or if its environment carries this folder's
marker: never because it holds a port or GPU memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.launch.files import LaunchFileError
from router.launch.process import MARKER, send
from router.launch.procfs import Process, boot_id, descendants, processes, title, variable

NOTE = "state.json"
LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Entry:
    """One engine that runs: its ports and all its processes."""

    path: str
    pid: int
    ports: tuple[int, ...]
    members: tuple[tuple[int, int], ...]


class Folder:
    """The launcher's folder, held by one launcher at a time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._lock: int | None = None

    def hold(self) -> None:
        """Take it. Raises LaunchFileError if another launcher has it, or it cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(self._lock or 0, 20).decode(errors="replace")
            raise LaunchFileError(
                f"launch.start.folder: {self.path} is in use by another launcher (pid {pid or 'unknown'}); "
                "stop that one, or give this one a folder of its own"
            ) from None
        except OSError as error:
            raise LaunchFileError(f"launch.start.folder: {self.path} cannot be used: {error}") from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def marker(self, path: str) -> str:
        """Value of the environment variable that marks an engine's processes."""
        return f"{self.path}#{path}"

    def write(self, entries: Collection[Entry]) -> None:
        """Replace the note."""
        note = {
            "launcher": os.getpid(),
            "boot": boot_id(),
            "engines": [
                {
                    "path": entry.path,
                    "pid": entry.pid,
                    "ports": list(entry.ports),
                    "members": [list(member) for member in entry.members],
                }
                for entry in entries
            ],
        }
        fresh = self.path / f"{NOTE}.new"
        fresh.write_text(json.dumps(note, indent=1), encoding="utf-8")
        fresh.replace(self.path / NOTE)

    def let_go(self) -> None:
        """A clean end: no note, no lock."""
        (self.path / NOTE).unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def leftovers(self) -> list[Process]:
        """Living processes of an earlier launcher with this folder."""
        noted = self._noted()
        everything = processes()
        mine = os.getpid()
        found = {
            process.pid
            for process in everything.values()
            if process.key in noted
            or (process.pid != mine and (variable(process.pid, MARKER) or "").startswith(f"{self.path}#"))
        }
        found |= descendants(everything, found)
        return [everything[pid] for pid in sorted(found) if not everything[pid].zombie and pid != mine]

    def _noted(self) -> set[tuple[int, int]]:
        try:
            note: Any = json.loads((self.path / NOTE).read_text(encoding="utf-8"))
            if note["boot"] != boot_id():
                return set()
            return {(int(pid), int(start)) for each in note["engines"] for pid, start in each["members"]}
        except (OSError, ValueError, KeyError, TypeError):
            return set()


def describe(process: Process, ports: Collection[int], held: int) -> str:
    """Which process holds what. `held` is GPU memory in bytes, 0 if unknown."""
    holds = [f"port {port}" for port in ports] + (
        [f"{held / (1 << 30):.1f} GiB of GPU memory"] if held else []
    )
    return f"pid {process.pid} ({title(process.pid)})" + (f" holds {', '.join(holds)}" if holds else "")


KILL_LIMIT = 10.0
"""Seconds from SIGKILL until a process is gone; one in the driver may take some."""


def end_leftovers(find: Callable[[], list[Process]], grace: float) -> list[Process]:
    """SIGTERM, and SIGKILL for what is left after the grace; returns what even that did not end."""
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_LIMIT)):
        deadline = time.monotonic() + seconds
        while (left := find()) and time.monotonic() < deadline:
            send(left, number)
            time.sleep(0.1)
    return find()
