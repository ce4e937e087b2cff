"""Telling an engine by name that nobody waits for an answer any more.

Closing the connection is what stops an engine in every case; it looks at connections only every few
seconds for answers that are not streamed, and the abort is faster (`engine.inject_rid`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from router.core.failure import Failure
from router.proxy.link import EngineLink

ABORT_LIMIT = 2.0


class Aborter:
    """Sends aborts in the background, each once, none awaited by a request. `on_abort` counts them."""

    def __init__(self) -> None:
        self.on_abort: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[None]] = set()

    def abort(self, link: EngineLink, rid: bytes) -> None:
        """Abort the request that `link`'s engine knows as `rid`."""
        self.on_abort()
        task = asyncio.create_task(_send(link, rid))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for the aborts under way; each has its own limit."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _send(link: EngineLink, rid: bytes) -> None:
    body = json.dumps({"rid": rid.decode()}).encode()
    lines = [
        b"POST /abort_request HTTP/1.1\r\nhost: " + link.host,
        b"content-type: application/json\r\ncontent-length: " + str(len(body)).encode(),
    ]
    key = link.admin_api_key or link.api_key
    if key is not None:
        lines.append(b"authorization: Bearer " + key)
    try:
        async with asyncio.timeout(ABORT_LIMIT):
            connection = await link.pool.acquire()
            try:
                await connection.send(b"\r\n".join(lines) + b"\r\n\r\n", body)
                while await connection.read():
                    pass
            finally:
                link.pool.release(connection)
    except (Failure, TimeoutError):
        return  # the engine notices the closed connection by itself, only later
