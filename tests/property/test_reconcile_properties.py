"""Ghosts are seen where there are some and never where there are none, however the engine's gauges lag.

The model: the engine has a request from a moment after its lease starts until the lease ends; a reading
shows the engine as it was up to three seconds ago. What lingers in the engine after its lease is a ghost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from router.core.load import EngineLoad
from router.core.reconcile import MAX_AGE, Peak, Reconciler
from tests.support import FakeClock

EIGHTH = 0.125
LAG = 3.0
eighths = st.integers(0, 24).map(lambda count: count * EIGHTH)


@dataclass
class Engine:
    """What the engine holds at each moment: (from, to) of its requests."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def held(self, at: float) -> int:
        return sum(begin <= at < end for begin, end in self.spans)


@dataclass(frozen=True)
class Request:
    gap: float
    length: float
    late: float


requests = st.lists(
    st.builds(
        Request,
        gap=eighths,
        length=eighths,
        late=st.integers(0, 2).map(lambda count: count * EIGHTH),
    ),
    max_size=25,
)
lags = st.lists(st.integers(1, int(LAG / EIGHTH)).map(lambda count: count * EIGHTH), min_size=1, max_size=8)


def excesses(traffic: list[Request], lag: list[float], foreign: int) -> list[int]:
    """The excess after each reading, one a second, of an engine with that many requests of others."""
    clock = FakeClock(0.0)
    engine, reconciler = Engine(), Reconciler(clock)
    starts: list[tuple[float, int]] = []
    now = 0.0
    for request in traffic:
        now += request.gap
        ends = now + request.length
        starts += [(now, 1), (ends, -1)]
        engine.spans.append((now + request.late, ends))
    changes = sorted(starts, key=lambda change: (change[0], -change[1]))
    found, ours = [], 0
    for second in range(1, math.ceil(now) + 20):
        while changes and changes[0][0] <= second:
            at, change = changes.pop(0)
            clock.now = at
            ours += change
            reconciler.note(ours)
        clock.now = float(second)
        shown = engine.held(second - lag[second % len(lag)]) + foreign
        reconciler.read(EngineLoad(clock(), running=shown, waiting=0))
        found.append(reconciler.excess())
    assert ours == 0
    return found


@given(requests, lags)
def test_lag_alone_makes_no_ghosts(traffic: list[Request], lag: list[float]) -> None:
    assert not any(excesses(traffic, lag, foreign=0))


@given(requests, lags, st.integers(1, 50))
def test_others_are_never_counted_twice_and_always_in_the_end(
    traffic: list[Request], lag: list[float], foreign: int
) -> None:
    found = excesses(traffic, lag, foreign)
    assert max(found) <= foreign
    assert found[-1] == foreign, "once our own requests explain nothing any more"


junk = st.one_of(
    st.none(), st.integers(-5, 60), st.floats(allow_nan=True, allow_infinity=True), st.just(10**400)
)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 30.0]), junk, junk, junk), max_size=30))
def test_whatever_an_engine_says_the_excess_is_a_count_that_two_fresh_readings_gave(
    readings: list[tuple[float, Any, Any, Any]],
) -> None:
    clock = FakeClock(0.0)
    reconciler = Reconciler(clock)
    sound: list[tuple[float, int]] = []
    for gap, running, waiting, stamp in readings:
        clock.advance(gap)
        reconciler.read(EngineLoad(clock(), running=running, waiting=waiting, stamp=stamp))
        if all(isinstance(part, int | float) and 0 <= part < math.inf for part in (running, waiting)):
            sound.append((clock(), int(min(running, 10**300) + min(waiting, 10**300))))
        excess = reconciler.excess()
        fresh = [held for at, held in sound if clock() - at <= 2 * MAX_AGE]
        assert isinstance(excess, int)
        assert excess == 0 or (len(fresh) >= 2 and 0 < excess <= max(fresh))


@given(
    st.lists(st.tuples(eighths, st.integers(0, 9)), max_size=60),
    st.sampled_from([0.0, 1.0, 4.0]),
)
def test_the_peak_is_that_of_every_moment_of_the_window(
    steps: list[tuple[float, int]], window: float
) -> None:
    peak = Peak(window)
    now = 0.0
    spans: list[tuple[float, float, int]] = []  # (from, to, value)
    last, since = 0, -math.inf
    for gap, value in steps:
        now += gap
        peak.note(now, value)
        spans.append((since, now, last))
        last, since = value, now
        expected = max([last, *(held for _, to, held in spans if to >= now - window)])
        assert peak.at(now) == expected
        assert len(peak._past) <= 10
