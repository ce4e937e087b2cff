"""Processes and listening ports as Linux shows them under /proc; what vanishes meanwhile is left out."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `start` is in clock ticks after boot: with the pid it names a process for good."""

    pid: int
    start: int
    parent: int
    session: int
    zombie: bool
    name: str

    @property
    def key(self) -> tuple[int, int]:
        """Its name for good, within this boot."""
        return self.pid, self.start


def processes() -> dict[int, Process]:
    """All of them, by pid."""
    found = {}
    for entry in os.listdir(PROC):
        process = process_of(int(entry)) if entry.isdigit() else None
        if process:
            found[process.pid] = process
    return found


def process_of(pid: int) -> Process | None:
    """The process of that pid, or None."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold spaces and brackets; what follows the last bracket does not.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Process(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0] in "ZX", name)


def title(pid: int) -> str:
    """How a process calls itself, at most 80 characters; empty if nobody may know."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    known = process_of(pid)
    text = words.strip() or (known.name if known else "")
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:80]


def variable(pid: int, name: str) -> str | None:
    """A variable of the environment a process was started with; None if it has none or nobody may know."""
    try:
        content = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    start = f"{name}=".encode()
    found = next((entry for entry in content.split(b"\0") if entry.startswith(start)), None)
    return None if found is None else found[len(start) :].decode(errors="replace")


def descendants(all_processes: Mapping[int, Process], roots: Collection[int]) -> set[int]:
    """Children of these, theirs, and so on."""
    children: dict[int, list[int]] = {}
    for process in all_processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    open_pids = list(roots)
    while open_pids:
        for child in children.get(open_pids.pop(), ()):
            if child not in found:
                found.add(child)
                open_pids.append(child)
    return found


def boot_id() -> str:
    """Changes with every boot of the machine."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def listeners(port: int) -> list[int]:
    """Processes that listen on a TCP port of this network namespace, as far as this user may see."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    return [int(pid) for pid in os.listdir(PROC) if pid.isdigit() and sockets and _has(pid, sockets)]


def _inodes(port: int) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / "self" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _has(pid: str, sockets: set[str]) -> bool:
    folder = PROC / pid / "fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return False
    for number in numbers:
        try:
            if os.readlink(folder / number) in sockets:
                return True
        except OSError:
            continue
    return False
