"""Are the ports free? SGLang finds out after minutes of loading, so it is asked before."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from router.launch.procfs import listeners, title


@dataclass(frozen=True, slots=True)
class Wanted:
    """A port somebody will listen on; `host` None stands for all addresses."""

    what: str
    host: str | None
    port: int


def port_problems(wanted: Iterable[Wanted]) -> list[str]:
    """One line for each port that cannot be had, with who has it."""
    found = []
    for each in wanted:
        why = _bind_problem(each)
        if why:
            found.append(f"{each.what}: port {each.port} cannot be used: {why}{_holders(each.port)}")
    return found


def can_bind(host: str | None, port: int) -> bool:
    """Whether a port can be had now."""
    return _bind_problem(Wanted("", host, port)) is None


def _bind_problem(wanted: Wanted) -> str | None:
    if wanted.port == 0:
        return None
    host = wanted.host or "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        # As servers do it: connections of an earlier run that linger are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted.port))
            # Two sockets may share an address until one of them listens.
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "address already in use"
            return (error.strerror or str(error)).lower()
    return None


def _holders(port: int) -> str:
    pids = listeners(port)
    if not pids:
        return " (by a program that this user cannot see)"
    return " by " + ", ".join(f"pid {pid} ({title(pid)})" for pid in pids)
