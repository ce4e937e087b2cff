"""A bar chart of N over the last minute, with the watermarks drawn through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from rich.text import Text

from router.demo.frame import Sample

COLOURS = {"speculative": "green", "baseline": "yellow"}
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MARK = "bold red"
_LABEL = 10


def chart(history: Sequence[Sample], slots: int, high: int, low: int, width: int, rows: int) -> list[Text]:
    """Rows of text, the top one first, then one that names the active path of each column.

    Args:
        history: samples, oldest first.
        slots: samples that fill the chart; fewer leave its left part empty.
        high, low: the watermarks.
        width: columns including the labels at the left.
        rows: height of the bars.
    """
    columns = spread(history, slots, width - _LABEL)
    top = max(high * 1.25, max((each.n for each in columns if each), default=0))
    marks = {_row_of(low, top, rows): f"low {low}", _row_of(high, top, rows): f"high {high}"}
    lines = []
    for row in reversed(range(rows)):
        mark = marks.get(row)
        line = Text(f"{mark or '':>{_LABEL - 2}} ", style=_MARK if mark else "", no_wrap=True)
        line.append("┤" if mark else "│", style="dim")
        _append(line, (_cell(column, row, top, rows, marked=mark is not None) for column in columns))
        lines.append(line)
    strip = Text(f"{'path':>{_LABEL - 2}} ", no_wrap=True)
    strip.append("└", style="dim")
    _append(strip, ((each.path[0].upper(), COLOURS[each.path]) if each else ("─", "dim") for each in columns))
    return [*lines, strip]


def spread(history: Sequence[Sample], slots: int, columns: int) -> list[Sample | None]:
    """One sample a column; several that share a column are represented by the one with the largest N."""
    padded = [None] * (slots - len(history)) + list(history[-slots:])
    spans = [(column * slots // columns, (column + 1) * slots // columns) for column in range(columns)]
    return [
        max(
            (each for each in padded[start : max(end, start + 1)] if each),
            key=lambda each: each.n,
            default=None,
        )
        for start, end in spans
    ]


def _append(line: Text, cells: Iterable[tuple[str, str]]) -> None:
    # One span for each run of a style: a span for each cell would take most of the time of a frame.
    for style, run in groupby(cells, key=itemgetter(1)):
        line.append("".join(text for text, _ in run), style=style)


def _row_of(value: float, top: float, rows: int) -> int:
    return min(rows - 1, int(value / top * rows))


def _cell(column: Sample | None, row: int, top: float, rows: int, *, marked: bool) -> tuple[str, str]:
    eighths = 0 if column is None else min(8, max(0, round((column.n / top * rows - row) * 8)))
    if column is None or eighths == 0:
        return ("┄", "red") if marked else (" ", "")
    colour = COLOURS[column.path]
    if marked and eighths == 8:
        return "┄", f"red on {colour}"
    return _EIGHTHS[eighths], colour
