"""What an engine holds beyond our leases."""

from __future__ import annotations

from typing import Any

import pytest

from router.core.load import EngineLoad
from router.core.reconcile import MAX_AGE, WINDOW, Peak, Reconciler
from tests.support import FakeClock


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.reconciler = Reconciler(self.clock)

    def read(self, running: Any, waiting: Any = 0, stamp: float | None = None) -> int:
        """A second passes, a reading comes; the excess then."""
        self.clock.advance(1.0)
        self.reconciler.read(EngineLoad(self.clock(), running=running, waiting=waiting, stamp=stamp))
        return self.reconciler.excess()


def test_what_two_readings_agree_on_is_the_excess() -> None:
    bench = Bench()
    bench.reconciler.note(2)
    assert [bench.read(5, 2), bench.read(4, 2), bench.read(9), bench.read(2)] == [0, 4, 4, 0]


def test_leases_of_the_time_before_explain_a_reading() -> None:
    bench = Bench()
    bench.reconciler.note(6)
    bench.reconciler.note(0)
    for _ in range(int(WINDOW)):
        assert bench.read(6) == 0
    assert bench.read(6) == 0, "the first that they do not explain"
    assert bench.read(6) == 6


def test_an_engine_that_holds_less_than_we_count_has_no_excess() -> None:
    bench = Bench()
    bench.reconciler.note(5)
    assert [bench.read(0), bench.read(1)] == [0, 0]


@pytest.mark.parametrize(
    ("running", "waiting"),
    [(None, 0), (5, None), (float("nan"), 0), (5, float("inf")), (-5, 0), (5, -9), (True, 0), ("5", 0)],
)
def test_what_is_no_count_is_not_counted(running: Any, waiting: Any) -> None:
    bench = Bench()
    assert [bench.read(running, waiting) for _ in range(3)] == [0, 0, 0]
    bench.read(3)
    assert bench.read(3) == 3
    assert bench.read(running, waiting) == 3, "what was known stays until it is old"


def test_a_gauge_that_stands_still_is_no_news() -> None:
    bench = Bench()
    assert [bench.read(5, stamp=7.0) for _ in range(3)] == [0, 0, 0]
    assert bench.read(5, stamp=7.5) == 5


def test_a_reading_that_is_not_later_is_no_second_one() -> None:
    bench = Bench()
    bench.read(5)
    bench.reconciler.read(EngineLoad(bench.clock(), running=5, waiting=0))
    assert bench.reconciler.excess() == 0


def test_old_readings_say_nothing() -> None:
    bench = Bench()
    bench.read(5)
    assert bench.read(5) == 5
    bench.clock.advance(MAX_AGE)
    assert bench.reconciler.excess() == 5
    bench.clock.advance(0.5)
    assert bench.reconciler.excess() == 0
    assert bench.read(5) == 0, "too long after the last one to agree with it"
    assert bench.read(5) == 5


def test_with_the_engine_goes_what_it_held() -> None:
    bench = Bench()
    bench.read(5, stamp=1.0)
    bench.read(5, stamp=2.0)
    bench.reconciler.forget()
    assert bench.reconciler.excess() == 0
    assert bench.read(5, stamp=2.0) == 0
    assert bench.read(5, stamp=3.0) == 5


def test_the_peak_of_a_step_function() -> None:
    peak = Peak(4.0)
    assert peak.at(0.0) == 0
    for now, value in ((1.0, 3), (2.0, 5), (3.0, 1), (4.0, 2)):
        peak.note(now, value)
    assert [peak.at(now) for now in (4.0, 7.0, 7.5, 8.0, 8.5)] == [5, 5, 2, 2, 2]
