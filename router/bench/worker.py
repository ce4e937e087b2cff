"""A client process: takes loads on stdin, reports on stdout. `python -m router.bench.worker`."""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from router.bench.messages import Load, Result, Status, Stop, orders, read_frame, write
from router.bench.slots import Maker

STATUS_EVERY = 0.25
BEAT = 0.02


class Pulse:
    """How late this process comes to what it wants to do: as late as the times that it notes.

    Attributes:
        late: seconds, summed up over all beats.
        beats: how many there were.
    """

    def __init__(self) -> None:
        self.late = 0.0
        self.beats = 0

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            due = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            self.late += max(0.0, time.monotonic() - due)
            self.beats += 1


async def serve() -> None:
    """Carry out orders until stdin ends; what is open then is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    maker: Maker | None = None
    reporting: asyncio.Task[None] | None = None
    pulse = Pulse()
    beating = asyncio.create_task(pulse.run())
    try:
        while (data := await read_frame(reader)) is not None:
            order = orders.decode(data)
            if isinstance(order, Load):
                if maker is not None and reporting is not None:
                    maker.cut()
                    await reporting
                maker = Maker(order, time.monotonic)
                maker.start()
                reporting = asyncio.create_task(_report(maker, pulse))
            elif isinstance(order, Stop) and maker is not None:
                maker.cut() if order.cut else maker.stop()
    finally:
        beating.cancel()
        if maker is not None:
            maker.cut()
        if reporting is not None:
            reporting.cancel()


async def _report(maker: Maker, pulse: Pulse) -> None:
    """Statuses while the load goes on, then its result."""
    ended = asyncio.ensure_future(maker.ended())
    out = sys.stdout.buffer
    while not ended.done():
        write(out, _status(maker, pulse))
        await asyncio.wait([ended], timeout=STATUS_EVERY)
    write(out, _status(maker, pulse))
    write(out, Result(ended.result()))


def _status(maker: Maker, pulse: Pulse) -> Status:
    return Status(
        at=time.monotonic(),
        cpu=time.process_time(),
        late=pulse.late,
        beats=pulse.beats,
        chunks=maker.chunks,
        warm=maker.warm,
        open=maker.open,
        done=maker.done,
        failed=maker.failed,
    )


def main() -> None:
    """Entry point."""
    uvloop.run(serve())


if __name__ == "__main__":
    main()
