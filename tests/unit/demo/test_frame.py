from __future__ import annotations

import pytest

from router.core.words import SwitchReason
from router.demo.frame import TICK, WINDOW, Frames
from router.demo.words import rate_text, seconds_text, why_text
from tests.unit.demo.build import LOAD, status, switch

UP = switch(1008.6, "speculative", "baseline", 13, "high")
DOWN = switch(1027.5, "baseline", "speculative", 4, "low")


def test_before_the_first_switch() -> None:
    frame = Frames(1000.0).take(status(), LOAD)
    assert (frame.active_path, frame.n, frame.high, frame.low) == ("speculative", 4, 13, 5)
    assert frame.why == "N has been below high = 13 since the start"
    assert frame.switches == ()
    assert [row.active for row in frame.rows] == [True, False]
    assert (frame.rows[1].in_flight, frame.rows[1].requests, frame.rows[1].ttft_p50) == (4, 7, 0.064)


def test_switches_are_told_from_the_beginning_newest_first() -> None:
    frame = Frames(1000.0).take(status(switches=(UP, DOWN)), LOAD)
    assert [(each.at, each.text) for each in frame.switches] == [
        (27.5, "baseline → speculative at N = 4 (low)"),
        (8.6, "speculative → baseline at N = 13 (high)"),
    ]
    assert frame.why == "N fell to 4 and stayed, low is 5"


def test_the_last_minute_is_remembered() -> None:
    frames = Frames(1000.0)
    kept = round(WINDOW / TICK)
    taken = [frames.take(status(n=n, active="baseline"), LOAD) for n in range(kept + 5)]
    assert [each.n for each in taken[2].history] == [0, 1, 2]
    assert [each.n for each in taken[-1].history] == list(range(5, kept + 5))
    assert taken[-1].history[-1].path == "baseline"


@pytest.mark.parametrize("reason", [None, *SwitchReason])
def test_every_reason_has_words(reason: str | None) -> None:
    assert why_text(reason, 13, 13, 5)


def test_numbers_in_words() -> None:
    assert [seconds_text(each) for each in (None, 0.0641, 1.25)] == ["-", "64 ms", "1.25 s"]
    assert [rate_text(each) for each in (None, 0.0, 499.6)] == ["-", "0", "500"]
