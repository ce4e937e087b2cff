"""A client that shows every byte: raw sockets to a simulated engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

LIMIT = 10.0


@dataclass(frozen=True)
class Answer:
    """A complete response: headers in order, body without chunk framing, and the chunks if framed."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    chunks: list[bytes]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[bytes]:
        return [event for event in self.body.split(b"\n\n") if event]


def encode(method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """One request on the wire, to be answered and closed."""
    lines = [f"{method} {path} HTTP/1.1", "Host: sim", "Connection: close"]
    fields = dict(headers or {})
    if body is not None:
        fields.setdefault("Content-Type", "application/json")
        fields["Content-Length"] = str(len(body))
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")


def decode(data: bytes) -> Answer:
    """Takes a whole response apart."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    chunks = []
    if ("Transfer-Encoding", "chunked") in headers:
        rest = body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            chunks.append(rest[:length])
            rest = rest[length + 2 :]
        assert chunks.pop() == b""
        body = b"".join(chunks)
    return Answer(int(first.split()[1]), headers, body, chunks)


async def ask(
    port: int,
    method: str,
    path: str,
    body: dict[str, Any] | bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request, its whole response."""
    payload = json.dumps(body).encode() if isinstance(body, dict) else body
    async with asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(encode(method, path, payload, headers))
            return decode(await reader.read())
        finally:
            writer.close()
            await writer.wait_closed()


def chat(text: str = "Say hi", **fields: Any) -> dict[str, Any]:
    """A chat body."""
    return {"model": "smol", "messages": [{"role": "user", "content": text}], **fields}


async def until(condition: Callable[[], bool], seconds: float = LIMIT) -> None:
    """Wait for a condition; fails at the deadline."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def until_async(condition: Callable[[], Awaitable[bool]], seconds: float = LIMIT) -> None:
    """Wait for a condition that has to ask somebody; fails at the deadline."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)
