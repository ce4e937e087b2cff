"""CPU time and memory of a process and all its descendants, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(root: int) -> list[int]:
    """`root` and its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """User and system time of the tree so far; of descendants that have ended, if they were waited for."""
    ticks = 0
    for pid in tree(root):
        if fields := _stat(pid):
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


def rss_mb(root: int) -> float:
    """Resident memory of the tree, MB; pages that its processes share count once for each."""
    pages = 0
    for pid in tree(root):
        if fields := _stat(pid):
            pages += int(fields[21])
    return pages * PAGE / 1e6


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
