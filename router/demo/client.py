"""A small streaming HTTP client, one connection each: the load shares its cores with what it loads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from router.core.words import Path
from router.demo.reply import Reply, judge

TIMEOUT = 60.0


class _Answer:
    """An answer as it comes in; httptools calls the `on_` methods."""

    def __init__(self, clock: Callable[[], float], whole: asyncio.Future[None]) -> None:
        self.path: Path | None = None
        self.first: float | None = None
        self.body = bytearray()
        self.whole = whole
        self.keep_alive = False
        self.status = 0
        self._clock = clock
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(f"not HTTP: {error}")

    def fail(self, reason: str) -> None:
        if not self.whole.done():
            self.whole.set_exception(ConnectionError(reason))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-router-path" and value in (b"speculative", b"baseline"):
            self.path = Path(value.decode())

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        if self.first is None:
            self.first = self._clock()
        self.body += data

    def on_message_complete(self) -> None:
        self.keep_alive = self._parser.should_keep_alive()
        if not self.whole.done():
            self.whole.set_result(None)


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer: _Answer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one by its methods only

    def data_received(self, data: bytes) -> None:
        if self.answer is not None:
            self.answer.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.answer is not None:
            self.answer.fail("the connection broke off")


class StreamClient:
    """Sends one request at a time and waits for the end of its answer.

    Args:
        host, port: of the router's data port.
        clock: monotonic seconds.
    """

    def __init__(self, host: str, port: int, clock: Callable[[], float]) -> None:
        self._host = host
        self._port = port
        self._clock = clock
        self._connection: _Connection | None = None

    async def ask(self, body: bytes) -> Reply:
        """Send a chat request; what goes wrong is told in the reply, never raised."""
        started = self._clock()
        answer = _Answer(self._clock, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._exchange(body, answer)
            tokens, problem = judge(answer.status, bytes(answer.body))
        except TimeoutError:
            tokens, problem = 0, f"no whole answer within {TIMEOUT:g} s"
        except OSError as error:
            tokens, problem = 0, str(error) or type(error).__name__
        finally:
            if not answer.keep_alive:
                self.close()
        return Reply(answer.path, started, answer.first, self._clock(), tokens, problem)

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.abort()
        self._connection = None

    async def _exchange(self, body: bytes, answer: _Answer) -> None:
        connection = self._connection
        if connection is None or connection.transport is None or connection.transport.is_closing():
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(_Connection, self._host, self._port)
            self._connection = connection
        assert connection.transport is not None
        connection.answer = answer
        connection.transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: router\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        await answer.whole
