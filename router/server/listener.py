"""Sockets and uvicorn servers that live inside a larger program: no signal handlers, no exit, no banner."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import uvicorn

from router.server.protocol import GuardedProtocol, HeadLimits

BACKLOG = 2048


class StartError(Exception):
    """Why a router cannot start, in one line for the operator."""


class BindError(StartError):
    """A port that cannot be had."""


def bind(host: str, port: int, what: str) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        BindError: naming `what`, the address and the reason.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise BindError(f"{what} port {host}:{port} cannot be used: {reason}") from None
    listener.setblocking(False)
    return listener


class EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program around it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield

    def stop_listening(self) -> None:
        """Refuse new connections; those that stand go on."""
        for server in getattr(self, "servers", []):
            server.close()


def build_server(app: Any, *, keep_alive: float, head: HeadLimits) -> EmbeddedServer:
    """A server for `app`.

    Args:
        keep_alive: seconds an idle client connection is kept.
        head: limits on request heads.
    """
    config = uvicorn.Config(
        app,
        http=partial(GuardedProtocol, head=head),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        loop="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,  # type: ignore[arg-type]
        timeout_graceful_shutdown=1,
        backlog=BACKLOG,
    )
    return EmbeddedServer(config)


async def serve(server: EmbeddedServer, listener: socket.socket) -> asyncio.Task[None]:
    """Start `server` on `listener` and return once it accepts connections."""
    task = asyncio.create_task(server.serve(sockets=[listener]), name="listener")
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    return task
