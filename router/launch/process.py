"""An engine as a process: a session of its own, a log in a file, and no process of it left behind.

SGLang's main process starts workers, which may outlive it: re-parented, with the GPU memory and the ports.
They are known by four signs, each of which a process can lose: the session, the ancestry, having been seen
before, and a variable of the environment. As a subreaper the launcher becomes the parent of orphans, so
ancestry is never lost altogether.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from router.launch.procfs import Process, descendants, process_of, processes, variable

MARKER = "SPEC_ROUTER_LAUNCH"
"""In the environment of everything that a launcher starts: `FOLDER#PATH`."""

KEPT_LOGS = 5
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Become the parent of orphaned descendants; False where the kernel does not do that."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


class Reaper:
    """Collects ended processes that were inherited."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def reap(self, own: Iterable[int]) -> None:
        """Collect what had ended by the last call already.

        At first sight it may be a child that was started this moment, which somebody else waits for.

        Args:
            own: children that somebody else waits for.
        """
        me, known = os.getpid(), set(own)
        ended = {
            process.key
            for process in processes().values()
            if process.parent == me and process.zombie and process.pid not in known
        }
        for pid, _ in ended & self._seen:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = ended


def children() -> frozenset[tuple[int, int]]:
    """Children of this process now. Those it has before it starts any are not of its making."""
    me = os.getpid()
    return frozenset(process.key for process in processes().values() if process.parent == me)


def orphans(own: Iterable[int], before: Collection[tuple[int, int]] = ()) -> list[Process]:
    """Living processes that were inherited, with their descendants.

    Args:
        own: children that are no orphans.
        before: children that were there first, as behind `other-program & exec spec-router launch`.
    """
    everything, known = processes(), set(own)
    me = os.getpid()
    heads = {
        process.pid
        for process in everything.values()
        if process.parent == me and process.pid not in known and process.key not in before
    }
    found = heads | descendants(everything, heads)
    return [everything[pid] for pid in found if not everything[pid].zombie]


def send(members: Iterable[Process], number: signal.Signals) -> None:
    """Signal these processes; one whose pid has gone to another by now gets nothing."""
    for member in members:
        now = process_of(member.pid)
        if now and now.key == member.key:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member.pid, number)


class EngineProcess:
    """One run of an engine.

    Args:
        argv, env: the command; `env` is the whole environment.
        log: where standard output and error go.
        marker: value of `MARKER`.
    """

    def __init__(self, argv: Iterable[str], env: Mapping[str, str], log: Path, marker: str) -> None:
        self.log = log
        self._marker = marker
        with log.open("wb") as out:
            # The engine writes the file itself: neither a busy nor a dead launcher can make it wait or break.
            self._popen = subprocess.Popen(
                list(argv),
                # setproctitle would overwrite the environment that the marker is read from.
                env={**env, MARKER: marker, "SPT_NOENV": "1"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._read = log.open("rb")
        first = process_of(self._popen.pid)
        self._start = first.start if first else 0
        self._known = {self._popen.pid: self._start}
        self._lock = threading.Lock()  # the watcher looks from a thread

    @property
    def pid(self) -> int:
        """Of the main process, which is also its session."""
        return self._popen.pid

    def poll(self) -> int | None:
        """The exit status of the main process, negative for a signal, or None while it runs."""
        return self._popen.poll()

    def members(self, *, thorough: bool = False) -> list[Process]:
        """Living processes of this engine; they are remembered.

        Args:
            thorough: look at the environment of every process of this user too.
        """
        everything = processes()
        with self._lock:
            alive = {pid for pid, start in self._known.items() if _is(everything.get(pid), start)}
        found = alive | descendants(everything, alive)
        leader = everything.get(self.pid)
        # A pid is not given away while a session has it for a name; afterwards it may be somebody else's.
        ours = leader is None or leader.start == self._start
        for process in everything.values():
            if (ours and process.session == self.pid) or (thorough and self._marked(process.pid)):
                found.add(process.pid)
        with self._lock:
            gone = {pid for pid, start in self._known.items() if not _is(everything.get(pid), start)}
            self._known = {pid: start for pid, start in self._known.items() if pid not in gone}
            self._known |= {pid: everything[pid].start for pid in found if pid in everything}
        return [everything[pid] for pid in found if pid in everything and not everything[pid].zombie]

    def _marked(self, pid: int) -> bool:
        return pid != os.getpid() and variable(pid, MARKER) == self._marker

    def adopt(self, orphan: Process) -> None:
        """This process is of this engine, although it has no sign of it."""
        with self._lock:
            self._known[orphan.pid] = orphan.start

    def new_log(self) -> str:
        """What was written since the last call."""
        return self._read.read().decode(errors="replace")

    def ask_to_end(self) -> None:
        """SIGTERM to the main process only: it drains, and ends its workers then."""
        if self.poll() is None:
            self._popen.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """No more of the log will be read."""
        self._read.close()


def rotate(log: Path) -> None:
    """Keep the logs of earlier runs: `x.log` becomes `x.log.1`, and so on."""
    for number in range(KEPT_LOGS - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number - 1}") if number > 1 else log
        with suppress(FileNotFoundError):
            older.replace(log.with_name(f"{log.name}.{number}"))


def _is(process: Process | None, start: int) -> bool:
    return process is not None and process.start == start
