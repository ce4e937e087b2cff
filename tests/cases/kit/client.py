"""RawClient: sends any bytes, sees chunk framing, and leaves in every way a real client can."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any

from .conn import Fields, Mark
from .sock import WireSocket
from .sse import MODEL, chunked
from .wire import HEAD_END, BodyReader, Framing, Head, Malformed, framing_of, parse_head

CHAT = "/v1/chat/completions"


class End(StrEnum):
    """How a response ended, as far as the client can tell."""

    OPEN = "open"
    COMPLETE = "complete"
    EOF = "eof"  # FIN before the end that the framing promised
    RST = "rst"
    MALFORMED = "malformed"


@dataclass(slots=True)
class RawResponse:
    """One response; grows while it arrives. Times are monotonic seconds."""

    head: Head
    reader: BodyReader
    head_at: float
    interim: list[Head] = field(default_factory=list)  # 1xx responses before it
    body: bytearray = field(default_factory=bytearray)  # de-framed
    arrivals: list[Mark] = field(default_factory=list)  # cumulative body bytes by time of arrival
    end: End = End.OPEN
    ended_at: float | None = None
    problem: str = ""

    @property
    def status(self) -> int:
        """The status code."""
        return int(self.head.line.split(" ")[1])

    @property
    def path(self) -> str | None:
        """Which path the router says it used."""
        return self.head.get("x-router-path")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def arrived(self, body_bytes: int) -> float:
        """When the body had reached that many bytes."""
        for mark in self.arrivals:
            if mark.body_bytes >= body_bytes:
                return mark.time
        raise AssertionError(f"only {len(self.body)} of {body_bytes} bytes arrived ({self.end})")

    def delays(self, sent: list[Mark]) -> list[float]:
        """Seconds from each of the engine's sends to the arrival of its last byte."""
        return [self.arrived(mark.body_bytes) - mark.time for mark in sent]


def assert_openai_error(response: RawResponse, status: int | set[int]) -> dict[str, Any]:
    """The response is one whole OpenAI-shaped error with a status of those; returns the error object."""
    wanted = {status} if isinstance(status, int) else status
    assert response.status in wanted, f"{response.head.line}: {bytes(response.body[:300])!r}"
    assert response.end is End.COMPLETE, response.end
    assert (response.head.get("content-type") or "").split(";")[0] == "application/json"
    assert response.head.get("content-length") == str(len(response.body))
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    assert all(isinstance(error[key], str) and error[key] for key in ("message", "type")), error
    return dict(error)


class RawClient(WireSocket):
    """One client connection; responses are numbered in the order of their requests."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.responses: list[RawResponse] = []
        self._interim: list[Head] = []
        self._buffer = bytearray()
        self._methods: deque[str] = deque()

    @classmethod
    async def connect(
        cls, port: int, *, receive_buffer: int | None = None, source: str | None = None
    ) -> RawClient:
        """Connect to a loopback port; a small receive buffer (bytes) makes a slow reader felt early."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            sock.bind((source, 0))
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        client = cls(sock)
        client.start_reading()
        return client

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fin()

    async def ask(self, data: bytes, within: float = 10.0) -> RawResponse:
        """Send one request and wait for its whole response (or however it ends).

        A server may refuse a body half-way and close, so a failing send is not an error here.
        """
        number = len(self.responses)
        with contextlib.suppress(ConnectionError):
            await self.request(data)
        return await self.response(number, within)

    async def request(self, data: bytes) -> None:
        """Send the bytes of one request."""
        self._methods.append(data.split(b" ", 1)[0].decode("latin-1"))
        await self.send(data)

    async def response(self, number: int = -1, within: float = 10.0) -> RawResponse:
        """Wait until response `number` (-1: the newest) has ended in one way or another."""
        response = await self.started(number, within)
        await self.wait(lambda: response.end is not End.OPEN, within, "end of the response")
        return response

    async def started(self, number: int = -1, within: float = 10.0) -> RawResponse:
        """Wait for the head of response `number` (-1: the newest, the first if there is none yet)."""
        need = number + 1 if number >= 0 else 1
        await self.wait(lambda: len(self.responses) >= need, within, "response head")
        return self.responses[number]

    async def body(self, size: int, within: float = 10.0) -> RawResponse:
        """Wait until the newest response has so many body bytes."""
        response = await self.started(within=within)
        await self.wait(lambda: len(response.body) >= size, within, f"{size} body bytes")
        return response

    async def wait(self, condition: Callable[[], bool], within: float, what: str) -> None:
        """Wait for a condition that only this connection's traffic can change."""
        deadline = time.monotonic() + within
        while not condition():
            over = self.closed or self.peer_gone_at is not None
            assert not over, f"connection over (fin {self.fin_at}, rst {self.rst_at}) before: {what}"
            left = deadline - time.monotonic()
            assert left > 0, f"not within {within} s: {what}"
            await self.news(left)

    def received(self, data: bytes, at: float) -> None:
        current = self.responses[-1] if self.responses else None
        if current is not None and current.end is End.OPEN:
            data = self._feed(current, data, at)
        self._buffer += data
        while HEAD_END in self._buffer and (not self.responses or self.responses[-1].end is not End.OPEN):
            self._begin(at)

    def _begin(self, at: float) -> None:
        raw, _, rest = bytes(self._buffer).partition(HEAD_END)
        self._buffer.clear()
        head = parse_head(raw)
        status = int(head.line.split(" ")[1])
        if 100 <= status < 200:
            self._interim.append(head)
            self._buffer += rest
            return
        method = self._methods.popleft() if self._methods else "GET"
        bodiless = method == "HEAD" or status in (204, 304)
        framing = (Framing.NONE, 0) if bodiless else framing_of(head, request=False)
        response = RawResponse(head, BodyReader(*framing), at, self._interim)
        self._interim = []
        self.responses.append(response)
        self._buffer += self._feed(response, rest, at)

    def _feed(self, response: RawResponse, data: bytes, at: float) -> bytes:
        try:
            response.body += response.reader.feed(data)
        except Malformed as problem:
            response.end, response.ended_at, response.problem = End.MALFORMED, at, str(problem)
            return b""
        response.arrivals.append(Mark(at, len(response.body)))
        if response.reader.done:
            response.end, response.ended_at = End.COMPLETE, at
        return response.reader.rest

    def gone(self) -> None:
        current = self.responses[-1] if self.responses else None
        if current is None or current.end is not End.OPEN:
            return
        current.ended_at = self.peer_gone_at
        if self.rst_at is not None:
            current.end = End.RST
        else:
            current.end = End.COMPLETE if current.reader.framing is Framing.EOF else End.EOF


def request_bytes(
    method: str, target: str, headers: Fields = (), body: bytes | None = None, *, host: str = "router.test"
) -> bytes:
    """A request with `host` and, if there is a body, its content-length (unless `headers` frames it)."""
    names = {name.lower() for name, _ in headers}
    rows = [f"{method} {target} HTTP/1.1"]
    rows += [] if "host" in names else [f"host: {host}"]
    rows += [f"{name}: {value}" for name, value in headers]
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        rows.append(f"content-length: {len(body)}")
    return ("\r\n".join(rows) + "\r\n\r\n").encode("latin-1") + (body or b"")


def chat_body(*, stream: bool, **extra: Any) -> bytes:
    """A chat request's JSON."""
    message = {"role": "user", "content": "What is the capital of France?"}
    return json.dumps({"model": MODEL, "messages": [message], "stream": stream, **extra}).encode()


def post(body: bytes, target: str = CHAT, headers: Fields = ()) -> bytes:
    """A JSON POST."""
    named = any(name.lower() == "content-type" for name, _ in headers)
    kind: Fields = () if named else (("content-type", "application/json"),)
    return request_bytes("POST", target, (*kind, *headers), body)


def post_chunked(pieces: list[bytes], target: str = CHAT, headers: Fields = ()) -> bytes:
    """A JSON POST in chunked framing."""
    framing = (("content-type", "application/json"), ("transfer-encoding", "chunked"))
    return request_bytes("POST", target, (*framing, *headers), chunked(*pieces))


def good(headers: Fields = (), **extra: Any) -> bytes:
    """GOOD: a streamed chat request."""
    return post(chat_body(stream=True, **extra), headers=headers)


def good_ns(headers: Fields = (), **extra: Any) -> bytes:
    """GOOD-NS: the same, not streamed."""
    return post(chat_body(stream=False, **extra), headers=headers)


async def ask(port: int, data: bytes, within: float = 10.0) -> RawResponse:
    """One request on a connection of its own."""
    async with await RawClient.connect(port) as client:
        return await client.ask(data, within)
