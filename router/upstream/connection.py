"""One connection to an engine: send a request, read the head, read the body as it arrives.

Bytes are handed on as the engine sent them, minus the transfer coding. Each network read wakes the
reader once, or goes straight to a sink without waking anybody; what arrived in one read leaves in one
piece. Reading pauses while the reader is behind, so a slow client slows its own engine stream by TCP and
costs no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from router.core.failure import Failure, Kind
from router.core.headers import Headers

# Unread body bytes above which reading from the engine pauses.
HIGH_WATER = 256 * 1024
# A head larger than this is no engine's.
MAX_HEAD = 64 * 1024
# Takes body bytes on the spot; False: no more for now.
Sink = Callable[[bytes], bool]
# A body goes out in slices of this size, so that one large upload does not occupy the loop.
UPLOAD_SLICE = 256 * 1024


class Connection(asyncio.Protocol):
    """A keep-alive connection; one exchange at a time, one reader at a time."""

    __slots__ = (
        "_busy",
        "_chunks",
        "_complete",
        "_error",
        "_exchanges",
        "_framed",
        "_got_bytes",
        "_got_head",
        "_head_size",
        "_loop",
        "_parser",
        "_read_paused",
        "_sink",
        "_spoiled",
        "_taken",
        "_transport",
        "_waiter",
        "_write_paused",
        "headers",
        "idle_since",
        "received",
        "status",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
        self._chunks: list[bytes] = []
        self._busy = False
        self._exchanges = 0
        self._read_paused = False
        self._write_paused = False
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._chunks.clear()
        # Body bytes that have arrived, and those of them that the reader has been given.
        self.received = self._taken = 0
        self._error: Failure | None = None
        self._got_bytes = self._got_head = self._complete = self._framed = self._spoiled = False
        self._head_size = 0
        self.status = 0
        self.headers: Headers = []

    # ---- what the data path calls

    @property
    def is_closed(self) -> bool:
        """True once the connection cannot carry another request."""
        return self._transport is None or self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """True if the exchange ended so cleanly that the next one may use this connection."""
        return self._complete and self._framed and not self._spoiled and not self.is_closed

    @property
    def framed(self) -> bool:
        """True if the body's end is marked in the message; else it ends with the connection."""
        return self._framed

    @property
    def ended(self) -> bool:
        """True if the whole body has arrived and been read."""
        return self._complete and not self._chunks

    @property
    def flowing(self) -> bool:
        """True while more may arrive: the body has not ended and nothing has failed."""
        return not self._complete and self._error is None

    async def send(self, head: bytes, body: bytes) -> None:
        """Send a request and wait for the head of the answer.

        Raises:
            Failure: `stale_connection`, `engine_reset` or `engine_protocol_error`, or what `fail` was given.
        """
        self._busy = True
        self._exchanges += 1
        if self._transport is None:
            self._lost(None)
        elif len(body) <= UPLOAD_SLICE:
            self._transport.write(head + body)
        else:
            await self._upload(self._transport, head, body)
        while not self._got_head and self._error is None:
            await self._wait()
        if self._error is not None and not self._got_head:
            raise self._error

    async def _upload(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), UPLOAD_SLICE):
            if self._got_head or self._error is not None:
                self._spoiled = True  # answered before it had read everything
                return
            transport.write(view[start : start + UPLOAD_SLICE])
            while self._write_paused and not self._got_head and self._error is None:
                await self._wait()
            await asyncio.sleep(0)

    async def read(self) -> bytes:
        """Body bytes that have arrived; b"" at the end of the body.

        Raises:
            Failure: `engine_reset` before the first body byte, `engine_stream_broken` after it,
                `engine_protocol_error`, or what `fail` was given.
        """
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._complete:
                return b""
            await self._wait()
        return self._take()

    async def pour(self, sink: Sink) -> None:
        """Hand body bytes to `sink` as they arrive, from within the event loop's own callback.

        Returns when `sink` wants no more for now, or when the body has ended or failed: `read` then gives
        its last bytes or raises.
        """
        self._sink = sink
        try:
            if self._pass_on(sink):
                await self._wait()
        finally:
            self._sink = None

    def _pass_on(self, sink: Sink) -> bool:
        """Pour what is here; False if the reader must take over."""
        if self._complete or self._error is not None:
            return False
        return not self._chunks or sink(self._take())

    def _take(self) -> bytes:
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._taken = self.received
        if self._read_paused and self._transport is not None:
            self._read_paused = False
            self._transport.resume_reading()
        return data

    def fail(self, failure: Failure) -> None:
        """End the exchange from outside, for instance at a time limit: whoever waits gets `failure`."""
        if self._error is None:
            self._error = failure
        self.close()
        self._wake()

    def close(self) -> None:
        """Close at once. The engine sees it and stops generating."""
        if self._transport is not None:
            self._transport.abort()

    def rest(self, now: float) -> None:
        """Go idle: between two exchanges."""
        self._reset()
        self._busy = False
        self.idle_since = now

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands; TCP_NODELAY is the event loop's default."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes from the engine."""
        if not self._busy or self._complete:  # nobody asked for these
            self._spoiled = True
            self.close()
            return
        self._got_bytes = True
        try:
            self._parser.feed_data(data)
            if not self._got_head:
                self._bound_head(len(data))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete:
                kind = Kind.BROKEN if self.received else Kind.PROTOCOL
                self._error = self._error or Failure(kind)
            self._spoiled = True
            self.close()
        if self._sink is not None and self._pass_on(self._sink):
            return
        self._sink = None
        if self.received - self._taken > HIGH_WATER and not self._read_paused and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()
        self._wake()

    def _bound_head(self, received: int) -> None:
        """The parser keeps a field without end to itself, so an unfinished head is judged by its bytes."""
        self._head_size += received
        if self._head_size > MAX_HEAD:
            raise httptools.HttpParserError("response head too large")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        self._lost(exc)

    def _lost(self, exc: Exception | None) -> None:
        if not self._complete and self._error is None:
            if self._got_head and not self._framed and exc is None:
                self._complete = True  # a body without length or chunks ends with its connection
            elif not self._got_bytes and self._exchanges > 1:
                self._error = Failure(Kind.STALE)
            else:
                self._error = Failure(Kind.BROKEN if self.received else Kind.RESET)
        self._wake()

    def pause_writing(self) -> None:
        """The engine reads slower than we send."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """The engine has caught up."""
        self._write_paused = False
        self._wake()

    # ---- httptools callbacks

    def on_message_begin(self) -> None:
        """A second message in one exchange was not asked for."""
        if self._complete:
            self._spoiled = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field; those behind the body (trailers) are dropped, or they would pass as headers."""
        if not self._got_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self._complete:
            return
        if sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD:
            raise ValueError("response head too large")
        self.status = self._parser.get_status_code()
        if not 100 <= self.status <= 599:
            raise ValueError("no status code of RFC 9110 §15")
        if 100 <= self.status < 200:
            self.headers = []
            return
        self._framed = self.status in (204, 304) or any(
            name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower())
            for name, value in self.headers
        )
        if not self._parser.should_keep_alive():
            self._spoiled = True
        self._got_head = True

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        if self._complete:
            return
        self._chunks.append(body)
        self.received += len(body)

    def on_message_complete(self) -> None:
        """The body is whole; an interim response (1xx) has none and is not the answer."""
        if self._got_head:
            self._complete = True
