"""The routes that generate: one plain ASGI callable for all wire formats."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from time import time as wall_time

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from router.sim import errors
from router.sim.backend import Backend
from router.sim.calls import Call, Json, decode
from router.sim.choice import Choice, Format
from router.sim.request import Delivery

Parser = Callable[[Json], Call]
FormatMaker = Callable[[Backend, Call, int], Format]
ErrorBody = Callable[[str, int], bytes]

_EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]


class GenerationRoute:
    """Answers one generating route; `error_body` makes the body of a refusal from its message and status."""

    def __init__(
        self,
        backend: Backend,
        route: str,
        parse: Parser,
        make_format: FormatMaker,
        error_body: ErrorBody = errors.openai,
    ) -> None:
        self._backend = backend
        self._route = route
        self._parse = parse
        self._make_format = make_format
        self._error_body = error_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if body is None:
            return
        try:
            document = decode(self._route, Headers(scope=scope).get("content-type", ""), body)
            call = self._parse(document)
            wire = self._make_format(self._backend, call, int(wall_time()))
            reply = _Reply(wire, streaming=call.stream)
            choices = self._backend.start(call, reply.on_delivery)
        except errors.WireError as error:
            await send_body(send, error.status, error.body, error.media_type)
        except errors.LengthError as error:
            # Only the routes that send a stream's headers at once have to say it inside the stream.
            await self._refuse(send, wire, error, streamed=call.stream and wire.headers_at_once)
        except errors.EngineError as error:
            await self._refuse(send, wire, error, streamed=call.stream)
        else:
            reply.open(choices)
            await self._answer(receive, send, call, reply)

    async def _refuse(self, send: Send, wire: Format, error: errors.EngineError, *, streamed: bool) -> None:
        if streamed:
            await _send_stream(send, wire.error_events(error))
        else:
            await send_json(send, error.code, self._error_body(error.message, error.code))

    async def _answer(self, receive: Receive, send: Send, call: Call, reply: _Reply) -> None:
        watch = asyncio.ensure_future(_disconnected(receive))
        watch.add_done_callback(reply.on_gone)
        try:
            if call.stream:
                await self._stream(send, reply)
            else:
                await self._whole(send, reply)
        finally:
            watch.cancel()
            self._backend.abandon(reply.choices)

    async def _stream(self, send: Send, reply: _Reply) -> None:
        if not reply.wire.headers_at_once:
            await reply.progress()
        if reply.gone:
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(_EVENT_STREAM)})
        while not reply.gone:
            while reply.events:
                await send({"type": "http.response.body", "body": reply.events.popleft(), "more_body": True})
            if reply.finished:
                await send({"type": "http.response.body", "body": b""})
                return
            await reply.progress()

    async def _whole(self, send: Send, reply: _Reply) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not reply.finished:
            await reply.progress()
            if reply.gone:
                # SGLang looks for a client that left only every few seconds; until then it computes for
                # nobody.
                poll = self._backend.params.disconnect_poll
                waited = loop.time() - started
                await asyncio.sleep((math.floor(waited / poll) + 1) * poll - waited if poll > 0 else 0)
                return
        if reply.failure is not None:
            await self._refuse(send, reply.wire, reply.failure, streamed=False)
        else:
            await send_json(send, 200, reply.wire.body(reply.choices))


class _Reply:
    """Events on their way to one client, and whether it is still there."""

    def __init__(self, wire: Format, *, streaming: bool) -> None:
        self.wire = wire
        self.choices: list[Choice] = []
        self.events: deque[bytes] = deque()
        self.finished = False
        self.failure: errors.EngineError | None = None
        self.gone = False
        self._streaming = streaming
        self._ended = 0
        self._waiter: asyncio.Future[None] | None = None

    def open(self, choices: list[Choice]) -> None:
        self.choices = choices

    def on_delivery(self, choice: Choice, delivery: Delivery) -> None:
        if self.finished:
            return
        if choice.failure is not None:
            self.failure, self.finished = choice.failure, True
            self.events += self.wire.error_events(choice.failure, choice)
            self._wake()
            return
        if self._streaming:
            self.events += self.wire.events(choice, delivery)
        else:
            choice.take(delivery)
        if delivery.finish is not None:
            self._ended += 1
            if self._ended == len(self.choices):
                self.finished = True
                if self._streaming:
                    self.events += self.wire.tail(self.choices)
        if self._streaming or self.finished:
            self._wake()

    def on_gone(self, watch: asyncio.Future[None]) -> None:
        if not watch.cancelled():
            self.gone = True
            self._wake()

    async def progress(self) -> None:
        """Wait for new events, the end, or the client's leaving."""
        if self.events or self.finished or self.gone:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def read_body(receive: Receive) -> bytes | None:
    """The whole request body; None when the client left before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def send_json(send: Send, status: int, body: bytes) -> None:
    """A complete JSON response."""
    await send_body(send, status, body, "application/json")


async def send_body(send: Send, status: int, body: bytes, media_type: str) -> None:
    """A complete response."""
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", media_type.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_stream(send: Send, events: list[bytes]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": list(_EVENT_STREAM)})
    for event in events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
