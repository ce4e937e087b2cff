"""The demonstration as plain lines, for pipes and logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from router.demo.frame import Frame, PathRow
from router.demo.summary import Summary
from router.demo.words import rate_text, seconds_text

EVERY = 5.0


class PlainView:
    """Writes a line every few seconds and one for each switch.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = 0.0
        self._last_switch = float("-inf")

    def begin(self, lines: Iterable[str]) -> None:
        """What is said before the first number."""
        self._write(lines)

    def show(self, frame: Frame) -> None:
        """Write what is due."""
        fresh = [switch for switch in frame.switches if switch.at > self._last_switch]
        if fresh:
            self._last_switch = fresh[0].at
            self._write(f"{switch.at:6.1f} s  switch: {switch.text}" for switch in reversed(fresh))
        if frame.load.elapsed >= self._next:
            self._next += EVERY
            self._write([frame_line(frame)])

    def end(self, summary: Summary) -> None:
        """Write the summary."""
        self._write(summary.lines())

    def close(self) -> None:
        """Nothing to undo."""

    def _write(self, lines: Iterable[str]) -> None:
        self._stream.writelines(f"{line}\n" for line in lines)
        self._stream.flush()


def frame_line(frame: Frame) -> str:
    """One moment in a line."""
    load = frame.load
    paths = "; ".join(_path(row) for row in frame.rows)
    return (
        f"{load.elapsed:6.1f} s  active {frame.active_path}, N = {frame.n} "
        f"(high {frame.high}, low {frame.low}), {load.requests} requests, {load.failed} failed; {paths}"
    )


def _path(row: PathRow) -> str:
    return (
        f"{row.path}: {row.in_flight} in flight, {rate_text(row.tokens_per_second)} tok/s, "
        f"TTFT p50 {seconds_text(row.ttft_p50)} p99 {seconds_text(row.ttft_p99)}"
    )
