from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from router.core.words import Path
from router.demo.client import StreamClient

EVENTS = b'data: {"choices":[],"usage":{"completion_tokens":3}}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nx-router-path: baseline\r\n"
WHOLE = HEAD + b"content-length: %d\r\n\r\n%s" % (len(EVENTS), EVENTS)


class Server:
    """Answers every request with the same bytes and counts connections."""

    def __init__(self, answer: bytes, closes: bool) -> None:
        self.answer = answer
        self.closes = closes
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(self.answer)
                await writer.drain()
                if self.closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: bytes, *, closes: bool = False) -> AsyncIterator[Server]:
    script = Server(answer, closes)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    async with server:
        yield script


@asynccontextmanager
async def asking(port: int, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[StreamClient]:
    client = StreamClient("127.0.0.1", port, clock)
    try:
        yield client
    finally:
        client.close()


async def test_a_whole_answer_is_counted_and_its_connection_used_again() -> None:
    async with serving(WHOLE) as server, asking(server.port) as client:
        replies = [await client.ask(b"{}") for _ in range(3)]
        assert server.connections == 1
    for reply in replies:
        assert (reply.path, reply.tokens, reply.problem) == (Path.BASELINE, 3, None)
        assert reply.first is not None
        assert reply.started <= reply.first <= reply.ended


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    answer = WHOLE.replace(b"content-length", b"connection: close\r\ncontent-length")
    async with serving(answer, closes=True) as server, asking(server.port) as client:
        assert [(await client.ask(b"{}")).problem for _ in range(2)] == [None, None]
        assert server.connections == 2


async def test_a_stream_that_breaks_off_is_a_failure() -> None:
    cut = HEAD + b"content-length: 500\r\n\r\ndata: {}\n\n"
    async with serving(cut, closes=True) as server, asking(server.port) as client:
        reply = await client.ask(b"{}")
    assert (reply.tokens, reply.problem) == (0, "the connection broke off")
    assert reply.path is Path.BASELINE


async def test_an_error_status_is_a_failure() -> None:
    answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}"
    async with serving(answer) as server, asking(server.port) as client:
        reply = await client.ask(b"{}")
    assert (reply.path, reply.problem) == (None, "status 503")


async def test_what_is_not_http_is_a_failure() -> None:
    async with serving(b"hello\r\n\r\n") as server, asking(server.port) as client:
        problem = (await client.ask(b"{}")).problem
    assert problem is not None
    assert problem.startswith("not HTTP")


async def test_a_refused_connection_is_a_failure() -> None:
    async with serving(WHOLE) as server:
        port = server.port
    async with asking(port) as client:
        assert (await client.ask(b"{}")).problem is not None
