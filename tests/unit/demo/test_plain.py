from __future__ import annotations

import io
from dataclasses import replace

from router.demo.frame import SwitchRow
from router.demo.plain import PlainView, frame_line
from tests.unit.demo.build import LOAD, frame

UP = SwitchRow(8.6, "speculative → baseline at N = 13 (high)")
DOWN = SwitchRow(27.5, "baseline → speculative at N = 4 (low)")


def test_a_moment_in_a_line() -> None:
    assert frame_line(frame()) == (
        "  33.0 s  active baseline, N = 14 (high 13, low 5), 200 requests, 0 failed; "
        "speculative: 1 in flight, 120 tok/s, TTFT p50 64 ms p99 150 ms; "
        "baseline: 13 in flight, - tok/s, TTFT p50 - p99 -"
    )


def test_lines_come_every_five_seconds() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    for tick in range(21):
        view.show(frame(load=replace(LOAD, elapsed=tick / 2)))
    assert [line[:8] for line in stream.getvalue().splitlines()] == ["   0.0 s", "   5.0 s", "  10.0 s"]


def test_each_switch_is_told_once_and_in_order() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    for switches in ((), (UP,), (UP,), (DOWN, UP)):
        view.show(frame(switches=switches, load=replace(LOAD, elapsed=-1.0)))
    assert stream.getvalue().splitlines() == [
        "   8.6 s  switch: speculative → baseline at N = 13 (high)",
        "  27.5 s  switch: baseline → speculative at N = 4 (low)",
    ]
