"""The demonstration on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from router.demo.chart import COLOURS, chart
from router.demo.frame import TICK, WINDOW, Frame, PathRow
from router.demo.summary import Summary
from router.demo.words import rate_text, seconds_text

# Lines that are printed above, and those around the chart and the list of switches.
_ABOVE = 9
_AROUND = 9
_MIN_CHART, _MAX_CHART = 3, 12
_MIN_SWITCHES = 2


class LiveView:
    """Draws frames in place below the introduction.

    Args:
        console: a terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def begin(self, lines: Iterable[str]) -> None:
        """What is said before the first number."""
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._live.start()

    def show(self, frame: Frame) -> None:
        """Draw a frame."""
        width, height = self._console.size
        self._live.update(render(frame, width, height), refresh=True)

    def end(self, summary: Summary) -> None:
        """Leave the last frame where it is and print the summary."""
        self.close()
        for line in summary.lines():
            self._console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


def render(frame: Frame, width: int, height: int) -> RenderableType:
    """A frame for a terminal of that size."""
    room = height - _ABOVE - _AROUND
    rows = min(_MAX_CHART, max(_MIN_CHART, room - _MIN_SWITCHES))
    switches = max(_MIN_SWITCHES, room - rows)
    return Group(
        _headline(frame),
        *chart(frame.history, round(WINDOW / TICK), frame.high, frame.low, min(width, 130) - 1, rows),
        _paths(frame.rows),
        _counts(frame),
        *_switches(frame, switches),
    )


def _headline(frame: Frame) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f" {frame.active_path} ", style=f"bold reverse {COLOURS[frame.active_path]}")
    line.append(f" for {frame.since:.0f} s: {frame.why}. ")
    return line.append(f"N = {frame.n}", style="bold")


def _paths(rows: Iterable[PathRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("path", min_width=13)
    for title in ("in flight", "requests", "tok/s, 5 s", "TTFT p50", "TTFT p99"):
        table.add_column(title, justify="right", min_width=8)
    for row in rows:
        table.add_row(
            Text(f"{'▶' if row.active else ' '} {row.path}", style=COLOURS[row.path]),
            str(row.in_flight),
            str(row.requests),
            rate_text(row.tokens_per_second),
            seconds_text(row.ttft_p50),
            seconds_text(row.ttft_p99),
            style="bold" if row.active else "",
        )
    return table


def _counts(frame: Frame) -> Text:
    load = frame.load
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{load.elapsed:.0f} s   ")
    line.append("load ends, requests finish   " if load.stopping else f"{load.users} users   ")
    line.append(f"{load.requests} answered   ")
    line.append(f"{load.failed} failed   ", style="bold red" if load.failed else "")
    return line.append(f"both in use {frame.mixed_seconds:.1f} s")


def _switches(frame: Frame, count: int) -> list[Text]:
    if not frame.switches:
        return [Text("no switch yet", style="dim")]
    shown = frame.switches[:count]
    return [Text(f"{each.at:6.1f} s  {each.text}", no_wrap=True, overflow="ellipsis") for each in shown]
