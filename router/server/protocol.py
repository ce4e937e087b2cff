"""uvicorn's HTTP protocol with limits on what a client may send.

What uvicorn lacks and strangers exploit: a limit on the size of a request head, a limit on the time
it may take, one meaning for every message (RFC 9112 §6.3, §11.2), and a disconnect that reaches
every request of a pipelined connection. How requests are answered: `server.wire`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from router.core.failure import error_body
from router.server.wire import WIRE, Wire

MAX_HEAD = 64 * 1024
# How long the rest of a refused body is read and dropped, so that the client can read the refusal. Closing at
# once would make the kernel answer the bytes still under way with a reset, and the refusal would be lost.
LINGER = 5.0

_log = logging.getLogger("router.server")


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """Limits on a request head: `seconds` until it is whole (0: none), and `size` in bytes."""

    seconds: float
    size: int = MAX_HEAD


class GuardedProtocol(HttpToolsProtocol):
    """One client connection."""

    # Beside uvicorn's attributes: with more than 30 in one place an object has a dictionary of its own, 2 KB.
    __slots__ = (
        "_head",
        "_head_begun",
        "_head_size",
        "_head_timer",
        "_in_head",
        "_linger_timer",
        "_muted",
        "_wire",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        head: HeadLimits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head = head
        self._head_size = 0
        self._in_head = True
        self._head_begun = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._muted = False

    # ---- connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the first head."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._wire = Wire(self.transport, self.flow, self.loop)
        self._arm_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of the connection, the one that runs and those that wait behind it."""
        self._disarm_head_timer()
        self._end_linger()
        for waiting, _ in self.pipeline:
            waiting.disconnected = True
            waiting.message_event.set()
        if self._running is not None and not self._running.response_complete:
            self._wire.part()
        super().connection_lost(exc)

    @property
    def _running(self) -> RequestResponseCycle | None:
        """The request that is being answered, or was last."""
        return self._wire.cycle

    def data_received(self, data: bytes) -> None:
        """Feed the parser, within the limits."""
        if self._in_head:
            self._head_size += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse("The request is not valid HTTP/1.1.")
        else:
            if self._in_head and self._head_size > self._head.size:
                self._refuse("The request head is too large.")
            elif self._head_begun and self._head_timer is None:
                self._arm_head_timer()

    def _feed(self, data: bytes) -> None:
        """Feed the parser. Offers to upgrade are ignored (RFC 9110 §7.8); Java's client makes one every time.

        The parser stops at such a head as if the body were another protocol, so a second one, told
        only how long the body is, reads on.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            framing = b"content-length: 0"
            for name, value in self.headers:
                if name in (b"content-length", b"transfer-encoding"):
                    framing = name + b": " + value
            self.parser = httptools.HttpRequestParser(self)
            self._muted = True
            self._feed(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n" + data[stop.args[0] :])

    # ---- parser callbacks

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._muted:
            return
        super().on_message_begin()
        self._in_head = self._head_begun = True
        self.scope["extensions"] = {WIRE: self._wire}  # type: ignore[dict-item]

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        if not self._muted:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field; those behind the body (trailers) are dropped, or they would pass as headers."""
        if self._in_head and not self._muted:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole: check what must hold before anybody acts on it."""
        if self._muted:
            self._muted = False
            return
        self._in_head = self._head_begun = False
        self._head_size = 0
        self._disarm_head_timer()
        check_head(self.url, self.headers, self.parser.get_http_version(), self._head.size)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole; the next head starts from nothing."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._end_linger()
        self._in_head = True
        self._head_size = 0

    def on_response_complete(self) -> None:
        """The answer is out; if the request is not all in, what is left of it is dropped for a while."""
        nothing_behind = self._running is self.cycle
        super().on_response_complete()
        if not nothing_behind or self._in_head or self.transport.is_closing():
            return
        if self.expect_100_continue:
            self.transport.close()  # the client may never send the body it announced
        else:
            self._linger_timer = self.loop.call_later(LINGER, self.transport.close)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._wire.cycle = cycle
        if cycle.scope["http_version"] == "1.0":  # knows no chunks (RFC 9112 §6.1)
            cycle.chunked_encoding = False
            cycle.expected_content_length = _UntilClose()
        super()._start_asgi_task(cycle, app)

    # ---- limits

    def _arm_head_timer(self) -> None:
        if self._head.seconds > 0:
            self._head_timer = self.loop.call_later(self._head.seconds, self._head_too_slow)

    def _disarm_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_linger(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _head_too_slow(self) -> None:
        self._head_timer = None
        self._refuse("The request head did not arrive in time.", status=408)

    def _refuse(self, message: str, status: int = 400) -> None:
        """Answer what is no request and close. In the middle of an answer closing is all that is left."""
        _log.debug("refused a connection's input: %s", message)
        if self.transport.is_closing():
            return
        if self._running is None or self._running.response_complete or not self._running.response_started:
            self.transport.write(_refusal(status, message))
            if self._running is not None and not self._running.response_complete:
                self._wire.part()
        self.transport.close()


class _UntilClose(int):
    """uvicorn's count of the bytes that are still to come, for a body that ends with its connection."""

    def __lt__(self, other: object) -> bool:
        return False  # no body is too long

    def __sub__(self, other: object) -> _UntilClose:
        return self


class HeadError(ValueError):
    """A request head with more than one meaning."""


def check_head(url: bytes, headers: list[tuple[bytes, bytes]], version: str, limit: int) -> None:
    """Refuse heads that two parties could read in two ways; the parser itself refuses the rest.

    Raises:
        HeadError: another version, too large, no single host, more than one length, a length beside a
            transfer coding, a transfer coding other than chunked.
    """
    if version not in ("1.1", "1.0"):
        raise HeadError("no version that this side speaks")
    size = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
    if size > limit:
        raise HeadError("head too large")
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise HeadError("not exactly one host")
    lengths = names.count(b"content-length")
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if lengths + len(codings) > 1 or (codings and (codings != [b"chunked"] or version != "1.1")):
        raise HeadError("no single body length")


def _refusal(status: int, message: str) -> bytes:
    code = "request_timeout" if status == 408 else "bad_request"
    body = json.dumps(error_body(message, "invalid_request_error", code)).encode()
    reason = b"Request Timeout" if status == 408 else b"Bad Request"
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        % (status, reason, len(body))
    ) + body
