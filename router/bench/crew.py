"""The client processes: started once, given one load after the other."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from router.bench.endings import ended, gone
from router.bench.messages import Load, Order, Result, Sample, Status, Stop, frame, read_frame, reports

LEAVE_WITHIN = 5.0

T = TypeVar("T")


class ClientDied(Exception):
    """A client process has ended by itself."""


@dataclass(slots=True)
class _Hand:
    """One client process, what it last said, and the results that it owes: one for each load, in order."""

    process: asyncio.subprocess.Process
    latest: asyncio.Queue[Status] = field(default_factory=asyncio.Queue)
    owed: deque[asyncio.Future[Result]] = field(default_factory=deque)
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

    @property
    def pids(self) -> list[int]:
        """Of the processes."""
        return [hand.process.pid for hand in self._hands]

    def begin(self, load: Load) -> Running:
        """Split a load over the processes and start it; one that still goes on there is cut."""
        size = min(len(self._hands), load.slots) if load.slots else len(self._hands)
        return Running(self._hands[:size], [part(load, place, size) for place in range(size)])


def part(load: Load, place: int, size: int) -> Load:
    """What one of `size` client processes does of a load."""
    # Each begins elsewhere among the prompts, so that no two ask the same at a time.
    begin = place * len(load.prompts) // size
    return msgspec.structs.replace(
        load,
        prompts=load.prompts[begin:] + load.prompts[:begin],
        slots=load.slots // size + (place < load.slots % size),
        rate=load.rate / size,  # independent Poisson processes add up to one
        seed=f"{load.seed}/{place}",
    )


class Running:
    """A load that is being made."""

    def __init__(self, hands: Sequence[_Hand], parts: Sequence[Load]) -> None:
        self._hands = hands
        loop = asyncio.get_running_loop()
        self._results = [loop.create_future() for _ in hands]
        for hand, result, load in zip(hands, self._results, parts, strict=True):
            hand.owed.append(result)
            while not hand.latest.empty():
                hand.latest.get_nowait()
            _send(hand, load)

    async def statuses(self) -> list[Status]:
        """The next status of each process. Raises ClientDied."""
        return list(await asyncio.gather(*(_next(hand) for hand in self._hands)))

    def stop(self, *, cut: bool = False) -> None:
        """Send nothing new; `cut`: close what is open."""
        for hand in self._hands:
            _send(hand, Stop(cut))

    async def samples(self) -> list[Sample]:
        """All requests, once the last one has ended. Raises ClientDied."""
        owed = zip(self._hands, self._results, strict=True)
        results = await asyncio.gather(*(_unless_dead(hand, result) for hand, result in owed))
        return [sample for result in results for sample in result.samples]


async def _listen(hand: _Hand) -> None:
    assert hand.process.stdout is not None
    while (data := await read_frame(hand.process.stdout)) is not None:
        report = reports.decode(data)
        if isinstance(report, Result):
            result = hand.owed.popleft()
            if not result.done():
                result.set_result(report)
        elif len(hand.owed) == 1:  # else it is of a load that was cut
            hand.latest.put_nowait(report)


async def _next(hand: _Hand) -> Status:
    """The latest status, or the next one."""
    status = await _unless_dead(hand, asyncio.ensure_future(hand.latest.get()))
    while not hand.latest.empty():
        status = hand.latest.get_nowait()
    return status


async def _unless_dead(hand: _Hand, waited: asyncio.Future[T]) -> T:
    """What is waited for, unless the process ends before. Raises ClientDied."""
    assert hand.reading is not None
    both: list[asyncio.Future[T] | asyncio.Task[None]] = [waited, hand.reading]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if waited.done():
            return waited.result()
    finally:
        waited.cancel()
    raise ClientDied(f"a client process ended by itself ({await _ending(hand)}); stderr may say why")


async def _ending(hand: _Hand) -> str:
    code = await hand.process.wait()
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _send(hand: _Hand, order: Order) -> None:
    assert hand.process.stdin is not None
    if not hand.process.stdin.is_closing():  # a process that died is told of by whoever waits for it
        hand.process.stdin.write(frame(order))


async def _dismiss(hand: _Hand) -> None:
    if hand.process.stdin is not None:
        hand.process.stdin.close()
    await gone(hand.process, LEAVE_WITHIN)
    if hand.reading is not None:
        await ended(hand.reading)
