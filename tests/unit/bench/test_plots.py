"""The picture of a sweep can be drawn of whatever a sweep gives, in each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.bench.plots import draw, plot
from router.bench.sweep import Cell
from tests.unit.bench.build import bad_figures, cell, good_figures

pytest.importorskip("matplotlib")

BAD = bad_figures({"timeout": 30})
SWEEP = [
    cell(good_figures(100.0 * n), concurrency=n, group=group, repeat=repeat)
    for n in (1, 4, 30, 32)
    for group in ("open", "copy")
    for repeat in (0, 1)
]
KINDS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.mark.parametrize("kind", KINDS)
def test_formats(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"sweep{kind}"
    plot(SWEEP, "title", file)
    assert file.read_bytes().startswith(KINDS[kind])


@pytest.mark.parametrize(
    "cells",
    [
        [cell()],
        [cell(BAD)],
        [*SWEEP, cell(BAD, concurrency=250)],
        [cell(rate=0.5), cell(rate=2.0)],
        [cell(rate=2.0), cell(concurrency=2)],
        [cell(bad_figures({}, 0))],
    ],
    ids=["one", "one bad", "one of many bad", "open loop", "both loops", "nothing came"],
)
def test_any_sweep_can_be_drawn(cells: list[Cell], tmp_path: Path) -> None:
    plot(cells, "a title with $ and _", tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").stat().st_size > 5000


def test_what_is_bad_is_a_cross_at_its_throughput_and_nowhere_else() -> None:
    figure = draw([cell(concurrency=1), cell(BAD, concurrency=8)], "title")
    crosses = [
        [(float(x), float(y)) for x, y in line.get_xydata()]
        for axes in figure.axes
        for line in axes.lines
        if line.get_marker() == "x" and len(line.get_xydata())
    ]
    assert crosses == [[(8.0, BAD.tokens_per_second)]]
    drawn = [float(x) for axes in figure.axes for line in axes.lines for x, _ in line.get_xydata()]
    assert drawn.count(8.0) == 1


def test_repeats_are_points_of_their_own_and_a_line_through_their_mean() -> None:
    rates = (300.0, 500.0)
    cells = [cell(good_figures(rate), repeat=repeat) for repeat, rate in enumerate(rates)]
    line, points, *_ = draw(cells, "title").axes[0].lines
    assert line.get_xydata().tolist() == [[4.0, 400.0]]
    assert points.get_xydata().tolist() == [[4.0, 300.0], [4.0, 500.0]]
