"""The client processes: started once, given one load after the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from router.bench.messages import Load, Order, Result, Sample, Status, Stop, frame, read_frame, reports

LEAVE_WITHIN = 5.0

T = TypeVar("T")


class ClientDied(Exception):
    """A client process has ended by itself."""


@dataclass(slots=True)
class _Hand:
    """One client process and what it last said."""

    process: asyncio.subprocess.Process
    latest: asyncio.Queue[Status] = field(default_factory=asyncio.Queue)
    result: asyncio.Future[Result] | None = None
    reading: asyncio.Task[None] | None = None


class Crew:
    """Client processes on this machine; use it as an async context.

    Args:
        size: how many.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._hands: list[_Hand] = []

    async def __aenter__(self) -> Crew:
        for _ in range(self._size):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "router.bench.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the process that owns the terminal
            )
            hand = _Hand(process)
            hand.reading = asyncio.create_task(_listen(hand))
            self._hands.append(hand)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(_dismiss(hand) for hand in self._hands))
        self._hands.clear()

    def begin(self, load: Load) -> Running:
        """Split a load over the processes and start it."""
        if load.slots:
            size = min(len(self._hands), load.slots)
            parts = [
                msgspec.structs.replace(
                    load, slots=load.slots // size + (place < load.slots % size), seed=f"{load.seed}/{place}"
                )
                for place in range(size)
            ]
        else:
            # Independent Poisson processes add up to one.
            size = len(self._hands)
            parts = [
                msgspec.structs.replace(load, rate=load.rate / size, seed=f"{load.seed}/{place}")
                for place in range(size)
            ]
        return Running(self._hands[:size], parts)


class Running:
    """A load that is being made."""

    def __init__(self, hands: Sequence[_Hand], parts: Sequence[Load]) -> None:
        self._hands = hands
        loop = asyncio.get_running_loop()
        for hand, part in zip(hands, parts, strict=True):
            hand.result = loop.create_future()
            while not hand.latest.empty():
                hand.latest.get_nowait()
            _send(hand, part)

    async def statuses(self) -> list[Status]:
        """The next status of each process. Raises ClientDied."""
        return list(await asyncio.gather(*(_next(hand) for hand in self._hands)))

    def stop(self, *, cut: bool = False) -> None:
        """Send nothing new; `cut`: close what is open."""
        for hand in self._hands:
            _send(hand, Stop(cut))

    async def samples(self) -> list[Sample]:
        """All requests, once the last one has ended. Raises ClientDied."""
        results = await asyncio.gather(*(_result(hand) for hand in self._hands))
        return [sample for result in results for sample in result.samples]


async def _listen(hand: _Hand) -> None:
    assert hand.process.stdout is not None
    while (data := await read_frame(hand.process.stdout)) is not None:
        report = reports.decode(data)
        if isinstance(report, Status):
            hand.latest.put_nowait(report)
        elif hand.result is not None and not hand.result.done():
            hand.result.set_result(report)


async def _next(hand: _Hand) -> Status:
    """The latest status, or the next one."""
    status = await _unless_dead(hand, asyncio.ensure_future(hand.latest.get()))
    while not hand.latest.empty():
        status = hand.latest.get_nowait()
    return status


async def _result(hand: _Hand) -> Result:
    assert hand.result is not None
    return await _unless_dead(hand, hand.result)


async def _unless_dead(hand: _Hand, waited: asyncio.Future[T]) -> T:
    """What is waited for, unless the process ends before. Raises ClientDied."""
    assert hand.reading is not None
    both: list[asyncio.Future[T] | asyncio.Task[None]] = [waited, hand.reading]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if waited.done():
        return waited.result()
    waited.cancel()
    raise ClientDied("a client process ended by itself; its last words are above, on stderr")


def _send(hand: _Hand, order: Order) -> None:
    assert hand.process.stdin is not None
    hand.process.stdin.write(frame(order))


async def _dismiss(hand: _Hand) -> None:
    if hand.process.stdin is not None:
        hand.process.stdin.close()
    try:
        async with asyncio.timeout(LEAVE_WITHIN):
            await hand.process.wait()
    except TimeoutError:
        hand.process.kill()
        await hand.process.wait()
    if hand.reading is not None:
        hand.reading.cancel()
        with suppress(asyncio.CancelledError):
            await hand.reading
