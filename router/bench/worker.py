"""A client process: takes loads on stdin, reports on stdout. `python -m router.bench.worker`."""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from router.bench.messages import Load, Result, Stop, orders, read_frame, write
from router.bench.slots import Maker

STATUS_EVERY = 0.25


async def serve() -> None:
    """Carry out orders until stdin ends; what is open then is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    maker: Maker | None = None
    reporting: asyncio.Task[None] | None = None
    try:
        while (data := await read_frame(reader)) is not None:
            order = orders.decode(data)
            if isinstance(order, Load):
                if maker is not None and reporting is not None:
                    maker.cut()
                    await reporting
                maker = Maker(order, time.monotonic, time.process_time)
                maker.start()
                reporting = asyncio.create_task(_report(maker))
            elif isinstance(order, Stop) and maker is not None:
                maker.cut() if order.cut else maker.stop()
    finally:
        if maker is not None:
            maker.cut()
        if reporting is not None:
            reporting.cancel()


async def _report(maker: Maker) -> None:
    """Statuses while the load goes on, then its result."""
    ended = asyncio.ensure_future(maker.ended())
    out = sys.stdout.buffer
    while not ended.done():
        write(out, maker.status())
        await asyncio.wait([ended], timeout=STATUS_EVERY)
    write(out, maker.status())
    write(out, Result(ended.result()))


def main() -> None:
    """Entry point."""
    uvloop.run(serve())


if __name__ == "__main__":
    main()
