"""Clients of all sorts: patient, leaving, slow. Each request ends in exactly one entry of the tally."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field

ROUTE = "/v1/chat/completions"


@dataclass(slots=True)
class Tally:
    """What the clients saw."""

    sent: int = 0
    seen: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Manner:
    """How one client behaves. `leaves_after` seconds: gone by FIN, or by RST once an answer has begun."""

    stream: bool
    leaves_after: float | None = None
    reset: bool = False
    bytes_per_second: int | None = None


def some_manner(rng: random.Random) -> Manner:
    """Mostly patient clients, a quarter that leave, a tenth that read slowly."""
    draw = rng.random()
    if draw < 0.25:
        return Manner(rng.random() < 0.8, leaves_after=rng.uniform(0.0, 2.0), reset=rng.random() < 0.5)
    if draw < 0.35:
        return Manner(stream=True, bytes_per_second=20_000)
    return Manner(stream=rng.random() < 0.85)


async def one_request(port: int, rng: random.Random, tally: Tally) -> None:
    """Send one request and behave in some manner until it ends."""
    manner = some_manner(rng)
    body = json.dumps(
        {
            "model": "default",
            "messages": [{"role": "user", "content": "word " * rng.randint(1, 60)}],
            "max_tokens": rng.randint(1, 80),
            "stream": manner.stream,
        }
    ).encode()
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\nConnection: close\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    try:
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        tally.sent += 1
        tally.seen[await _behave(manner, reader, writer)] += 1
    finally:
        writer.close()


async def _behave(manner: Manner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    if manner.leaves_after is not None:
        answered = bytearray()
        try:
            async with asyncio.timeout(manner.leaves_after):
                return await _read_all(reader, None, answered)
        except TimeoutError:
            if manner.reset and answered:
                _reset_on_close(writer)
            return "left"
    try:
        async with asyncio.timeout(90):
            return await _read_all(reader, manner.bytes_per_second, bytearray())
    except TimeoutError:
        return "stuck"


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _read_all(reader: asyncio.StreamReader, bytes_per_second: int | None, data: bytearray) -> str:
    """Read to the end of the connection into `data` and say what it was."""
    try:
        while piece := await reader.read(2048 if bytes_per_second else 1 << 16):
            data += piece
            if bytes_per_second:
                await asyncio.sleep(len(piece) / bytes_per_second)
    except ConnectionResetError:
        return "broken"
    return judge(bytes(data))


def judge(answer: bytes) -> str:
    """`ok`, a status in the 4xx and 5xx, `broken` for an answer that ends visibly early, else `clean-lie`.

    A `clean-lie` is what must never be: an answer that looks whole and is not.
    """
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head:
        return "broken"
    status = int(head.split(b" ", 2)[1])
    if status != 200:
        return str(status)
    if b"transfer-encoding: chunked" in head.lower():
        if not body.endswith(b"0\r\n\r\n"):
            return "broken"
        return "ok" if b"data: [DONE]" in body[-200:] else "clean-lie"
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return "ok" if len(body) == int(length.split(b":")[1]) else "broken"
