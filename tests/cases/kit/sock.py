"""A non-blocking TCP socket under full control: every byte, FIN, RST and pause is the caller's choice."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time

RECV_SIZE = 256 * 1024
RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with zero seconds
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8  # states in TCP_INFO: reset by peer, FIN received


class WireSocket:
    """Time-stamps what arrives; subclasses get it through `received` and `gone`.

    `fin_at`, `rst_at` are the monotonic moments at which the peer's FIN or RST was seen.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.closed = False
        self.fin_at: float | None = None
        self.rst_at: float | None = None
        self.bytes_received = 0
        self.bytes_sent = 0
        self._loop = asyncio.get_running_loop()
        self.reading = False
        self._pace: tuple[int, float] | None = None
        self._pace_timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def __del__(self) -> None:
        self.sock.close()  # a failed test leaves its sockets behind; they are not a second failure

    def received(self, data: bytes, at: float) -> None:
        """Bytes arrived at monotonic time `at`."""
        raise NotImplementedError

    def gone(self) -> None:
        """The peer sent FIN or RST."""

    @property
    def peer_gone_at(self) -> float | None:
        """When the peer's FIN or RST arrived; None while it is there."""
        moments = [moment for moment in (self.fin_at, self.rst_at) if moment is not None]
        return min(moments, default=None)

    def peer_is_gone(self) -> bool:
        """As the kernel sees it, so also true while reading is stopped."""
        if self.closed or self.peer_gone_at is not None:
            return True
        state = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        return state in (TCP_CLOSE, TCP_CLOSE_WAIT)

    async def send(self, data: bytes) -> None:
        """Send all bytes; waits while the peer's window is closed. Raises ConnectionError."""
        if self.closed:
            raise ConnectionResetError("closed by this side")
        await self._loop.sock_sendall(self.sock, data)
        self.bytes_sent += len(data)

    async def send_pieces(self, pieces: list[bytes], gap: float = 0.0) -> None:
        """Send each piece on its own, `gap` seconds apart (0: as fast as possible)."""
        for piece in pieces:
            await self.send(piece)
            await asyncio.sleep(gap)

    async def pause(self, seconds: float) -> None:
        """Do nothing for so long; a gone peer interrupts an engine's script here."""
        await asyncio.sleep(seconds)

    def start_reading(self) -> None:
        """Take what arrives."""
        if not self.closed and not self.reading and self.peer_gone_at is None:
            self._loop.add_reader(self.sock.fileno(), self._readable)
            self.reading = True

    def stop_reading(self) -> None:
        """Leave what arrives in the kernel, so that the window fills up."""
        if self._pace_timer is not None:
            self._pace_timer.cancel()
        if self.reading:
            self._loop.remove_reader(self.sock.fileno())
            self.reading = False

    def read_slowly(self, size: int, every: float) -> None:
        """Take at most `size` bytes each `every` seconds from now on."""
        self._pace = (size, every)

    def half_close(self) -> None:
        """FIN: nothing more will be sent; reading goes on."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def fin(self) -> None:
        """Close in the ordinary way (the kernel sends RST instead if unread bytes are waiting)."""
        self._close()

    def rst(self) -> None:
        """Close with a reset."""
        if not self.closed:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
        self._close()

    def _close(self) -> None:
        if self.closed:
            return
        self.stop_reading()
        self._loop.remove_writer(self.sock.fileno())
        self.closed = True
        self.sock.close()
        self._notify()

    def _readable(self) -> None:
        at = time.monotonic()
        size = self._pace[0] if self._pace else RECV_SIZE
        try:
            data = self.sock.recv(size)
        except BlockingIOError:
            return
        except OSError:
            self.rst_at = at
            data = b""
        if not data:
            self.stop_reading()
            if self.rst_at is None:
                self.fin_at = at
            self.gone()
        else:
            self.bytes_received += len(data)
            self._rest()
            self.received(data, at)
        self._notify()

    def _rest(self) -> None:
        if self._pace is not None:
            self.stop_reading()
            self._pace_timer = self._loop.call_later(self._pace[1], self.start_reading)

    def _notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def news(self, within: float | None = None) -> bool:
        """Wait for anything to happen on this socket; False after `within` seconds without."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await asyncio.wait({waiter}, timeout=within)
        return waiter.done()
