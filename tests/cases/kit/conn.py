"""One connection to a fake engine, and the requests that came over it."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .sock import WireSocket
from .sse import JSON_HEADERS, SSE_HEADERS, chunked
from .waiting import until
from .wire import HEAD_END, BodyReader, Head, Malformed, framing_of, parse_head

if TYPE_CHECKING:
    from .engine import FakeEngine

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """At `time` the engine had handed over `body_bytes` bytes of the response body."""

    time: float
    body_bytes: int


@dataclass(slots=True, eq=False)
class RawRequest:
    """One request as it arrived; times are monotonic seconds."""

    conn: EngineConn
    head: Head
    reader: BodyReader
    arrived_at: float
    body: bytearray = field(default_factory=bytearray)  # de-framed
    marks: list[Mark] = field(default_factory=list)
    finished_at: float | None = None  # the script returned
    malformed: str | None = None

    @property
    def method(self) -> str:
        """GET, POST ..."""
        return self.head.line.split(" ")[0]

    @property
    def target(self) -> str:
        """Path and query as sent."""
        return self.head.line.split(" ")[1]

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.split("?")[0]

    @property
    def whole(self) -> bool:
        """Has the body arrived completely?"""
        return self.reader.done

    @property
    def open(self) -> bool:
        """Is an engine still working on it, and its peer still there?"""
        return self.finished_at is None and not self.conn.peer_is_gone()


class EngineConn(WireSocket):
    """One accepted connection. Scripts send through it; `requests` holds what it carried."""

    def __init__(self, engine: FakeEngine, sock: socket.socket, number: int) -> None:
        super().__init__(sock)
        self.engine = engine
        self.number = number
        self.accepted_at = time.monotonic()
        self.requests: list[RawRequest] = []
        self.raw = bytearray()  # the first `engine.keep_raw` bytes that arrived
        self.task: asyncio.Task[None] | None = None
        self._buffer = bytearray()
        self._taken = 0

    @property
    def served(self) -> int:
        """Requests whose script has returned."""
        return sum(request.finished_at is not None for request in self.requests)

    async def head(
        self, status: str = "200 OK", headers: Fields = SSE_HEADERS, *, chunked: bool = True
    ) -> None:
        """Send a response head in uvicorn's spelling."""
        await self.send(response_head(status, headers, chunked=chunked))

    async def chunk(self, data: bytes) -> None:
        """Send data as one HTTP chunk and mark the moment."""
        await self.body(data, chunked(data, end=False))

    async def body(self, data: bytes, wire: bytes | None = None) -> None:
        """Send body bytes (`wire` if their framed form differs) and mark the moment before the send."""
        request = self.requests[-1]
        before = request.marks[-1].body_bytes if request.marks else 0
        request.marks.append(Mark(time.monotonic(), before + len(data)))
        await self.send(data if wire is None else wire)

    async def end(self) -> None:
        """The last chunk."""
        await self.send(b"0\r\n\r\n")

    async def stream(self, events: list[bytes], gap: float = 0.0, headers: Fields = SSE_HEADERS) -> None:
        """A whole chunked answer, one event per chunk and `gap` seconds between them."""
        await self.head(headers=headers)
        for item in events:
            await self.chunk(item)
            await asyncio.sleep(gap)
        await self.end()

    async def reply(self, body: bytes, status: str = "200 OK", headers: Fields = JSON_HEADERS) -> None:
        """A whole answer with its length."""
        length = ("content-length", str(len(body)))
        await self.send(response_head(status, (*headers, length), chunked=False) + body)

    async def next_request(self) -> RawRequest | None:
        """The next request in order; None once the peer is gone."""
        while not self.closed:
            if self._taken < len(self.requests):
                request = self.requests[self._taken]
                if request.whole or self.engine.call_at == "head" or request.malformed:
                    self._taken += 1
                    return request
            if self.peer_gone_at is not None:
                return None
            await self.news()
        return None

    async def whole_body(self, request: RawRequest, within: float = 10.0) -> bytes:
        """Wait for the rest of a request whose script was called at its head."""
        await until(lambda: request.whole, within, "the whole request body")
        return bytes(request.body)

    def received(self, data: bytes, at: float) -> None:
        if len(self.raw) < self.engine.keep_raw:
            self.raw += data
        current = self.requests[-1] if self.requests else None
        if current is not None and current.malformed:
            return
        if current is not None and not current.whole:
            data = self._feed(current, data)
        self._buffer += data
        try:
            while HEAD_END in self._buffer:
                self._begin(at)
        except Malformed as problem:
            self.engine.errors.append(problem)
            self.rst()

    def _begin(self, at: float) -> None:
        raw, _, rest = bytes(self._buffer).partition(HEAD_END)
        self._buffer.clear()
        head = parse_head(raw)
        request = RawRequest(self, head, BodyReader(*framing_of(head, request=True)), at)
        self.requests.append(request)
        self.engine.note(request)
        self._buffer += rest if request.whole else self._feed(request, rest)

    def _feed(self, request: RawRequest, data: bytes) -> bytes:
        try:
            request.body += request.reader.feed(data)
        except Malformed as problem:
            request.malformed = str(problem)
            return b""
        return request.reader.rest

    def gone(self) -> None:
        if self.engine.cancel_on_gone and self.task is not None:
            self.task.cancel()


def response_head(status: str, headers: Fields, *, chunked: bool) -> bytes:
    """A response head as uvicorn writes it."""
    rows = [f"HTTP/1.1 {status}", "date: Sun, 29 Nov 2026 14:57:12 GMT", "server: uvicorn"]
    rows += [f"{name}: {value}" for name, value in headers]
    rows += ["Transfer-Encoding: chunked"] if chunked else []
    return ("\r\n".join(rows) + "\r\n\r\n").encode("latin-1")
