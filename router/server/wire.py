"""A client connection as the request that is being answered on it sees it.

What a relay needs and ASGI lacks: to be told at once that the client left, to write from within a
callback, the head in one piece with the first bytes behind it, and to end an answer so that the client
can tell it was cut. uvicorn still reads the requests, keeps the connection and starts the tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from router.core.headers import Headers, header

# Key of `scope["extensions"]` under which a request finds its `Wire`.
WIRE = "spec_router.wire"

# How long a cut answer may take to leave the send buffer before the connection is reset.
FLUSH_LIMIT = 2.0


class Wire:
    """One connection. Its answers are written with this or with ASGI's `send`, not with both.

    Args:
        transport, flow: the connection's.
        loop: the connection's.
    """

    __slots__ = ("_flow", "_head", "_on_gone", "_transport", "cycle", "loop")

    def __init__(
        self, transport: asyncio.Transport, flow: FlowControl, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._transport = transport
        self._flow = flow
        self.loop = loop
        self._head = b""
        self._on_gone: Callable[[], None] | None = None
        self.cycle: RequestResponseCycle | None = None

    # ---- the request

    def take_body(self) -> bytes | None:
        """The whole body, if it is all in and none of it has been taken; else it is received as ASGI does."""
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        self._flow.resume_reading()
        return body

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Call `on_gone` once, the moment the client leaves; at once if it has left."""
        self._on_gone = on_gone
        self._flow.resume_reading()  # a departure is only seen by reading
        if self.cycle is not None and self.cycle.disconnected:
            self.part()

    def unwatch(self) -> None:
        """Do not call it any more."""
        self._on_gone = None

    def part(self) -> None:
        """The client is gone, or shall count as gone."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self._on_gone is not None:
            on_gone, self._on_gone = self._on_gone, None
            on_gone()

    # ---- the answer

    def start(self, status: int, headers: Headers) -> None:
        """Begin the answer; its head leaves with the first bytes of the body.

        Args:
            status: any but an interim one.
            headers: names in lower case; without content-length the body is sent in chunks.
        """
        cycle = self._running()
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        if (b"connection", b"close") in headers:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        # Without either the body ends with the connection: HTTP/1.0 knows no chunks (RFC 9112 §6.1).
        sized = status in (204, 304) or cycle.scope["http_version"] == "1.0"
        sized = sized or header(headers, b"content-length") is not None
        cycle.chunked_encoding = not sized
        if cycle.chunked_encoding:
            lines.append(b"transfer-encoding: chunked\r\n")
        self._head = STATUS_LINE[status] + b"".join(lines) + b"\r\n"

    def write(self, data: bytes) -> bool:
        """Send body bytes; False: wait for `drained` before the next."""
        cycle = self.cycle
        if cycle is not None and data and not cycle.disconnected:
            if cycle.chunked_encoding:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if self._head:
                data, self._head = self._head + data, b""
            self._transport.write(data)
        return not self._flow.write_paused

    def finish(self, data: bytes) -> None:
        """Send the last body bytes and complete the answer."""
        cycle = self._running()
        if cycle.disconnected:
            return
        if cycle.chunked_encoding:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        self._send(data)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()

    @property
    def full(self) -> bool:
        """True if there is no room for more until `drained`."""
        return self._flow.write_paused

    async def drained(self) -> None:
        """Return when there is room for more."""
        if self._flow.write_paused:
            await self._flow.drain()

    def unsent(self) -> int:
        """Bytes written but not yet taken by the client's side of the connection."""
        return self._transport.get_write_buffer_size()

    def break_off(self) -> None:
        """End the connection after what has been written, without completing the answer."""
        self.part()
        if not self._transport.is_closing():
            self._send(b"")
            self._transport.close()
            self.loop.call_later(FLUSH_LIMIT, self._transport.abort)

    def reset(self) -> None:
        """End it now, dropping what has not been sent."""
        self._transport.abort()

    def _running(self) -> RequestResponseCycle:
        assert self.cycle is not None, "a request is being answered"
        return self.cycle

    def _send(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._transport.write(data)
