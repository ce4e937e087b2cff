from __future__ import annotations

import io

import pytest
from rich.console import Console

from router.demo.chart import chart, spread
from router.demo.frame import Sample, SwitchRow
from router.demo.intro import Addresses, intro
from router.demo.plan import make_plan
from router.demo.screen import render
from router.sim import PROFILE_NAMES, load_profile
from tests.unit.demo.build import frame


def samples(*numbers: int, path: str = "baseline") -> tuple[Sample, ...]:
    return tuple(Sample(n, path) for n in numbers)


def test_a_chart_has_a_label_at_each_watermark_and_bars_of_the_right_height() -> None:
    lines = [line.plain for line in chart(samples(0, 8, 16), 3, high=12, low=4, width=13, rows=4)]
    assert lines == [
        " high 12 ┤┄┄┄",
        "         │  █",
        "   low 4 ┤┄┄┄",
        "         │ ██",
        "    path └BBB",
    ]


def test_a_watermark_is_drawn_through_bars_and_under_what_does_not_reach_it() -> None:
    line = chart(samples(1, 8, 16), 3, high=12, low=4, width=13, rows=4)[2]
    assert [str(span.style) for span in line.spans if span.start >= 10] == ["red", "red on yellow"]


def test_an_unfilled_chart_is_empty_at_its_left() -> None:
    lines = [line.plain for line in chart(samples(9, path="speculative"), 4, high=4, low=2, width=14, rows=3)]
    assert lines[-1] == "    path └───S"


def test_samples_that_share_a_column_are_shown_by_their_largest() -> None:
    assert [each and each.n for each in spread(samples(1, 5, 2, 3), 4, 2)] == [5, 3]
    assert [each and each.n for each in spread(samples(7), 4, 2)] == [None, 7]
    assert [each and each.n for each in spread(samples(1, 2), 2, 4)] == [1, 1, 2, 2]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 15), (120, 40)])
def test_a_frame_fits_below_the_introduction(width: int, height: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    switches = tuple(SwitchRow(float(at), "speculative → baseline at N = 13 (high)") for at in range(50))
    lines = console.render_lines(render(frame(samples(*range(20)), switches), width, height), pad=False)
    introduced = len(intro(make_plan(load_profile("strong")), Addresses("http://a:1", "http://b:2"), "sim"))
    assert len(lines) + introduced < max(height, 24)
    text = "\n".join("".join(segment.text for segment in line) for line in lines)
    for needed in ("baseline  for 3 s: N reached 13", "high 13", "low 5", "TTFT p99", "120", "64 ms"):
        assert needed in text


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_the_introduction_fits_a_terminal_and_names_every_address(name: str) -> None:
    at = Addresses("http://127.0.0.1:8000", "http://127.0.0.1:29000")
    lines = intro(make_plan(load_profile(name)), at, "sim")
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for needed in (
        f"{at.data} ",
        f"{at.admin}/metrics",
        f"{at.admin}/admin/status",
        "shorter than the defaults",
    ):
        assert needed in text
