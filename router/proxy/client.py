"""The client's side of one request: its body, its departure, and what it has been sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from router.core.failure import Failure, Kind, error_body
from router.core.headers import Headers, header
from router.server.wire import WIRE, Wire

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@lru_cache(maxsize=1)
def _http_date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


class Client:
    """One request as seen from the client.

    Args:
        scope, receive: from ASGI; the answer is written to the connection's wire.
        request_id: goes out as `x-request-id`.
    """

    def __init__(self, scope: Scope, receive: Receive, request_id: bytes) -> None:
        self.headers: Headers = scope["headers"]
        self.request_id = request_id
        self.status: int | None = None
        self.streaming = False
        self.finished = False
        self.gone: Kind | None = None
        self._receive = receive
        self._wire: Wire = scope["extensions"][WIRE]
        # Kept, because asking for the running loop is a system call (getpid) on Python 3.11.
        self.loop = self._wire.loop
        # Send body bytes; False if the client is behind: wait for `drained` before the next.
        self.write: Callable[[bytes], bool] = self._wire.write

    @property
    def committed(self) -> bool:
        """True once a status line has been sent: nothing can be replayed any more."""
        return self.status is not None

    @property
    def behind(self) -> bool:
        """True if there is no room for more until `drained`."""
        return self._wire.full

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._wire.unsent()

    def take_body(self) -> bytes | None:
        """The whole request body, if it has arrived and none of it has been received; else `receive_body`."""
        return self._wire.take_body()

    async def receive_body(self) -> tuple[bytes, bool]:
        """The next piece of the request body, and whether more follows.

        Raises:
            Failure: `client_gone`.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = Kind.CLIENT_GONE
            raise Failure(Kind.CLIENT_GONE)
        return message.get("body", b""), message.get("more_body", False)

    def watch(self) -> None:
        """Once the body has been read: cancel the current task the moment the client leaves.

        Waiting for a failed write would notice it late or, before the first token, never.
        """
        task = asyncio.current_task(self.loop)
        assert task is not None

        def on_gone() -> None:
            self.leave(Kind.CLIENT_GONE)
            task.cancel()

        self._wire.watch(on_gone)

    def unwatch(self) -> None:
        """Stop watching."""
        self._wire.unwatch()

    def leave(self, kind: Kind) -> None:
        """Note why the client counts as gone; the first reason stays."""
        self.gone = self.gone or kind

    def start(self, status: int, headers: Headers) -> None:
        """Set the status line and headers; they leave with the first bytes of the body."""
        if header(headers, b"date") is None:
            headers.append((b"date", _http_date(int(time.time()))))
        if header(headers, b"server") is None:
            headers.append((b"server", b"spec-router"))
        headers.append((b"x-request-id", self.request_id))
        self.status = status
        self._wire.start(status, headers)

    async def drained(self) -> None:
        """Return when the client's connection has room for more."""
        await self._wire.drained()

    async def finish(self, data: bytes = b"") -> None:
        """Send the last body bytes and complete the response."""
        self.finished = True
        await self._wire.drained()
        self._wire.finish(data)

    async def send_json(self, status: int, body: object, headers: Headers | None = None) -> None:
        """A whole response of our own."""
        data = json.dumps(body).encode()
        own = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        self.start(status, own + (headers or []))
        await self.finish(data)

    async def send_failure(self, failure: Failure, headers: Headers) -> None:
        """Tell the client what went wrong, by whatever means are left.

        Before the status line: an OpenAI-shaped error. After it: on a stream an error event, and in
        every case a connection that ends without completing the response. A clean end would pass a cut
        answer off as a whole one, and the OpenAI SDKs would believe it.
        """
        if self.finished:
            return
        row = failure.row
        body = error_body(failure.message, row.error_type, failure.kind.value)
        if not self.committed:
            await self.send_json(row.status, body, headers)
            return
        if self.streaming:
            self.write(b"\n\ndata: " + json.dumps(body).encode() + b"\n\n")
        self.break_off()

    def break_off(self) -> None:
        """End the connection without completing the response."""
        self._wire.break_off()

    def reset(self) -> None:
        """Drop the connection and whatever it still holds."""
        self._wire.reset()
