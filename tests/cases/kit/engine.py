"""FakeEngine: a scripted SGLang at socket level. A test's script chooses every byte and every pause."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Literal

from . import probes
from .conn import EngineConn, RawRequest
from .sse import chat_answer, chat_events
from .waiting import until

__all__ = ["ConnScript", "EngineConn", "FakeEngine", "RawRequest", "Script", "good"]

Script = Callable[[EngineConn, RawRequest], Awaitable[None]]
ConnScript = Callable[[EngineConn], Awaitable[None]]


class FakeEngine:
    """Listens on a loopback port; `script` answers inference, `control` answers probes.

    `call_at` says whether a script is called once the head or once the whole body has arrived.
    `on_accept` runs first on every connection. `accept_delay` seconds pass before a connection is read.
    """

    def __init__(self, name: str, *, speculative: bool) -> None:
        self.name = name
        self.speculative = speculative
        self.port = 0
        self._listener: socket.socket | None = None
        self._plugs: list[socket.socket] = []
        self.live: set[EngineConn] = set()
        self.reset()

    def reset(self) -> None:
        """Forget what was recorded and answer everything in the default way again."""
        self.script: Script
        self.on_accept: ConnScript | None
        self.call_at: Literal["head", "body"]
        self.accept_delay: float
        self.use_good_script()
        self.control: dict[str, Script] = dict(probes.DEFAULTS)
        self.cancel_on_gone = True
        self.keep_raw = 64 * 1024
        self.forget()

    def use_good_script(self) -> None:
        """Answer inference in the default way from now on; records stay."""
        self.script, self.on_accept, self.call_at, self.accept_delay = good, None, "body", 0.0

    def forget(self) -> None:
        """Forget what was recorded."""
        self.requests: list[RawRequest] = []  # all but probes
        self.probes: deque[RawRequest] = deque(maxlen=500)
        self.conns: deque[EngineConn] = deque(maxlen=5000)
        self.accepted = 0
        self.errors: list[BaseException] = []  # raised by scripts, or bad requests from the peer

    @property
    def url(self) -> str:
        """For the router's config."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> FakeEngine:
        self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def up(self) -> None:
        """Listen (again, on the same port) and accept."""
        self.down()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(2048)
        self._listen(listener)
        self.accept()

    def _listen(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._listener = listener

    def down(self, *, reset: bool = False) -> None:
        """Refuse connections from now on; `reset` also resets those that are open."""
        if self._listener is not None:
            self.stop_accepting()
            self._listener.close()
            self._listener = None
        for plug in self._plugs:
            plug.close()
        self._plugs.clear()
        if reset:
            self.reset_connections()

    def reset_connections(self) -> None:
        """RST on every open connection."""
        for conn in list(self.live):
            conn.rst()
            if conn.task is not None:
                conn.task.cancel()

    def accept(self) -> None:
        """Take connections as they come."""
        assert self._listener is not None
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._incoming, self._listener)

    def stop_accepting(self) -> None:
        """Leave connections in the backlog: the kernel completes them, nobody reads."""
        assert self._listener is not None
        asyncio.get_running_loop().remove_reader(self._listener.fileno())

    def drop_syns(self) -> None:
        """Never accept, with a full backlog, so that connecting hangs. `up` ends it."""
        self.down()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(0)
        self._listen(listener)
        for _ in range(4):
            plug = socket.socket()
            plug.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                plug.connect(("127.0.0.1", self.port))
            self._plugs.append(plug)

    def note(self, request: RawRequest) -> None:
        """File a request whose head has arrived."""
        (self.probes if self._control_script(request) else self.requests).append(request)

    def open_requests(self) -> int:
        """Inference requests being worked on whose peer is still there."""
        return sum(request.open for conn in self.live for request in conn.requests if self._counts(request))

    def _counts(self, request: RawRequest) -> bool:
        return self._control_script(request) is None

    async def wait_requests(self, count: int, within: float = 5.0) -> None:
        """Wait until so many inference requests have arrived since the last reset."""
        await until(lambda: len(self.requests) >= count, within, f"{count} requests at {self.name}")

    async def wait_closed(self, conn: EngineConn, within: float) -> float:
        """Wait for the peer's FIN or RST on the connection; returns its moment (monotonic)."""

        def gone() -> bool:
            return conn.peer_gone_at is not None or (not conn.reading and conn.peer_is_gone())

        await until(gone, within, f"{self.name}: connection {conn.number} closed by its peer")
        return conn.peer_gone_at or time.monotonic()

    async def close(self) -> None:
        """Stop listening, reset what is open and wait for the scripts."""
        self.down(reset=True)
        tasks = [conn.task for conn in self.live if conn.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _incoming(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            conn = EngineConn(self, sock, self.accepted)
            self.conns.append(conn)
            self.live.add(conn)
            conn.task = asyncio.get_running_loop().create_task(self._serve(conn))

    async def _serve(self, conn: EngineConn) -> None:
        try:
            if self.accept_delay:
                await asyncio.sleep(self.accept_delay)
            conn.start_reading()
            if self.on_accept is not None:
                await self.on_accept(conn)
            while (request := await conn.next_request()) is not None:
                await (self._control_script(request) or self.script)(conn, request)
                request.finished_at = time.monotonic()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the peer left, or the test ended
        except Exception as problem:
            self.errors.append(problem)
        finally:
            conn.fin()
            self.live.discard(conn)

    def _control_script(self, request: RawRequest) -> Script | None:
        if request.method != "GET":
            return None
        path = "/v1/models" if request.path.startswith("/v1/models/") else request.path
        return self.control.get(path)


async def good(conn: EngineConn, request: RawRequest) -> None:
    """The default script: a short right answer, streamed if the request says so."""
    if b'"stream": true' in request.body or b'"stream":true' in request.body:
        await conn.stream(chat_events())
    else:
        await conn.reply(chat_answer())
