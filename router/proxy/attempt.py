"""One attempt at one engine: send the request, look at the first event, relay the rest.

Nothing reaches the client before the engine's first event or body byte, because SGLang reports
overload of a stream as HTTP 200 with an error as its first event. Up to that moment a failed attempt
can be repeated elsewhere; from then on bytes only pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from router.core.events import Decision
from router.core.failure import Effect, Failure, Kind, classify_status, is_length_refusal
from router.core.headers import Headers, header, request_headers, response_headers
from router.core.scan import Scanner, event_data, event_end, event_error_code
from router.core.words import DecisionReason, Path
from router.proxy.body import HeldBody
from router.proxy.client import Client
from router.proxy.link import EngineLink
from router.proxy.trace import in_context
from router.proxy.watchdog import Watchdog
from router.upstream.connection import Connection

# A first event longer than this is no error of an engine: stop looking and pass it on.
PEEK_LIMIT = 64 * 1024
# A 400 longer than this is no refusal for its length: those are one sentence.
LENGTH_LOOK = 4096
# An engine's error answer is kept up to this size in case the other path fails too.
HOLD_LIMIT = 256 * 1024
# As they stand in a header.
_NAMES: dict[str, bytes] = {word: word.encode() for word in (*Path, *DecisionReason)}


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """An engine's refusal, kept while the other path is tried."""

    status: int
    headers: Headers
    body: bytes


@dataclass(slots=True)
class Progress:
    """What is known of a request's answer so far; outlives the attempts.

    Attributes:
        first_byte_at, last_byte_at: loop time of the first and the latest body bytes.
        scanner: watches the answer that is being relayed.
        held: the answer of an attempt that is being repeated.
        held_by: the decision that led to it.
    """

    first_byte_at: float | None = None
    last_byte_at: float | None = None
    scanner: Scanner | None = None
    held: HeldAnswer | None = None
    held_by: Decision | None = None


@dataclass(slots=True)
class Attempt:
    """One attempt.

    Args:
        link: the engine.
        decision: why it was chosen.
        client: where the answer goes.
        watchdog: the request's time limits.
        progress: filled in as the answer comes.
        replayable: the caller would try elsewhere if this fails before its first byte.
        body: the request body; let go when the status line goes out, after which nothing is repeated.
        make_scanner: what looks on while the answer passes, made once it is known to be one.
    """

    link: EngineLink
    decision: Decision
    client: Client
    watchdog: Watchdog
    progress: Progress
    replayable: bool
    body: HeldBody
    make_scanner: Callable[[Decision, bool], Scanner]

    async def run(self, target: bytes, *, fresh: bool, context: Headers | None = None) -> Effect:
        """Relay the engine's answer.

        Args:
            target: path and query.
            fresh: on a new connection.
            context: of a trace, in place of the client's.

        Returns:
            What the answer says about the engine.

        Raises:
            Failure: what went wrong.
        """
        connection = await self.link.pool.acquire(fresh=fresh)
        try:
            self.watchdog.start(connection)
            self.progress.first_byte_at = None  # a refusal that is being repeated elsewhere was no answer
            body = self.body.data
            head = request_head(self.link, target, self.client, len(body), context)
            await connection.send(head, body)
            del head, body  # neither is held while the answer passes
            return await self._answer(connection)
        finally:
            self.watchdog.connection = None
            self.link.pool.release(connection)

    async def _answer(self, connection: Connection) -> Effect:
        kind = classify_status(connection.status)
        if kind is not None and self.replayable:
            await self._keep(connection, b"")
            raise Failure(kind, status=connection.status)
        streamed = (header(connection.headers, b"content-type") or b"").startswith(b"text/event-stream")
        # A coded stream shows no events: it is passed on from its first byte.
        readable = streamed and header(connection.headers, b"content-encoding") in (None, b"identity")
        if connection.status == 400 and self._may_be_too_long:
            data = await self._short_refusal(connection)
        else:
            data = await (self._first_event(connection) if readable else self._read(connection))
        self._commit(connection, streamed)
        await self._relay(connection, data, streamed)
        return self._verdict(connection, kind)

    @property
    def _may_be_too_long(self) -> bool:
        """True if a request that is too long for this engine may be tried on the baseline."""
        return self.replayable and self.decision.path is Path.SPECULATIVE

    async def _short_refusal(self, connection: Connection) -> bytes:
        """The first bytes of a 400, after looking whether all of it says that the request is too long."""
        data = b""
        while not connection.ended and len(data) < LENGTH_LOOK:
            data += await self._read(connection)
        if connection.ended and is_length_refusal(data):
            await self._keep(connection, data)
            raise Failure(Kind.TOO_LONG, status=400)
        return data

    async def _keep(self, connection: Connection, data: bytes) -> None:
        """Keep a refusal that begins with `data` in case the other path has no answer."""
        self.progress.held = await self._hold(connection, data)
        self.progress.held_by = self.decision

    async def _hold(self, connection: Connection, data: bytes) -> HeldAnswer | None:
        """The whole of a refusal, or None if it is too large or breaks off."""
        body = bytearray(data)
        try:
            while data := await self._read(connection):
                body += data
                if len(body) > HOLD_LIMIT:
                    return None
        except Failure:
            return None
        return HeldAnswer(connection.status, connection.headers, bytes(body))

    async def _first_event(self, connection: Connection) -> bytes:
        """Bytes up to at least the end of the first event, after looking for an error in it."""
        data = await self._read(connection)
        end = event_end(data)
        while end is None and len(data) < PEEK_LIMIT:
            more = await self._read(connection)
            if not more:
                break
            data += more
            end = event_end(data)
        code = event_error_code(data[:end]) if end is not None and connection.status == 200 else None
        kind = classify_status(code) if code is not None else None
        if kind is not None and self.replayable:
            raise Failure(kind, status=code)
        if code == 400 and self._may_be_too_long and is_length_refusal(event_data(data[:end])):
            await self._keep(connection, data)
            raise Failure(Kind.TOO_LONG, status=code)
        return data

    async def _read(self, connection: Connection) -> bytes:
        data = await connection.read()
        if data:
            # The engine is answering: from here on its silence is judged, not its start.
            self.watchdog.flows()
            self.progress.last_byte_at = self.watchdog.since
            if self.progress.first_byte_at is None:
                self.progress.first_byte_at = self.watchdog.since
        return data

    def _commit(self, connection: Connection, streamed: bool) -> None:
        # A stream is framed anew even if its length is known, so that an error event has room to follow.
        keep_length = not streamed and header(connection.headers, b"content-length") is not None
        headers = response_headers(connection.headers, keep_length=keep_length)
        if streamed:
            # Proxies in front must not buffer or store what is meant to arrive word by word.
            if header(headers, b"cache-control") is None:
                headers.append((b"cache-control", b"no-cache"))
            if header(headers, b"x-accel-buffering") is None:
                headers.append((b"x-accel-buffering", b"no"))
        self.client.streaming = streamed
        self.body.release()
        self.client.start(connection.status, headers + route_headers(self.decision))
        connection.headers = []  # not held while the answer passes

    async def _relay(self, connection: Connection, data: bytes, streamed: bool) -> None:
        scanner = self.progress.scanner = self.make_scanner(self.decision, streamed)
        watchdog, client = self.watchdog, self.client
        feed, write = scanner.feed, client.write

        def relay(piece: bytes) -> bool:
            feed(piece)
            return write(piece)

        while not connection.ended:
            relay(data)
            while connection.flowing:
                if client.behind:
                    watchdog.blocked()
                    await client.drained()
                    watchdog.flows()
                await connection.pour(relay)
            data = await connection.read()
        feed(data)
        watchdog.blocked()
        self.progress.last_byte_at = watchdog.since
        if streamed and not connection.framed and not scanner.done:
            client.write(data)
            raise Failure(Kind.BROKEN)
        await client.finish(data)

    def _verdict(self, connection: Connection, kind: Kind | None) -> Effect:
        """What a relayed answer says about the engine; a failure that could not be repeated is raised."""
        if kind is not None:
            raise Failure(kind, status=connection.status)
        scanner = self.progress.scanner
        code = scanner.error_code if scanner else None
        if code is not None:
            raise event_failure(code)
        return Effect.NEUTRAL if connection.status >= 400 else Effect.SUCCESS


def event_failure(code: int) -> Failure:
    """What an error event with that code in a relayed answer means."""
    return Failure(classify_status(code) or Kind.EVENT_ERROR, status=code)


def request_head(
    link: EngineLink, target: bytes, client: Client, length: int, context: Headers | None = None
) -> bytes:
    """The head of the request to the engine; a trace's `context` replaces the client's."""
    headers = request_headers(client.headers, link.api_key)
    if context is not None:
        headers = in_context(headers, context)
    lines = [
        b"POST " + target + b" HTTP/1.1\r\nhost: " + link.host,
        b"content-length: " + str(length).encode(),
        b"x-request-id: " + client.request_id,
    ]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def route_headers(decision: Decision) -> Headers:
    """What the client is told about the way its request took."""
    return [(b"x-router-path", _NAMES[decision.path]), (b"x-router-reason", _NAMES[decision.reason])]
