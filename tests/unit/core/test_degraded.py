"""Speculation that does harm is left, and gets another chance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.core.degraded import HOLD, LONGEST_HOLD, Harm
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.ledger import Ledger
from router.core.live import Live, PathLive
from router.core.pair import Pair
from router.core.policy import FixedPolicy
from router.core.words import DecisionReason, Path, Placement, Sign, SwitchReason
from tests.support import FakeClock, RecordingObserver

SPECULATIVE, BASELINE = Path


class Bench:
    """A speculative engine alone, whose readings a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.harm = Harm()
        self.active = {SPECULATIVE: 4, BASELINE: 0}
        self.rates: dict[Path, float | None] = {SPECULATIVE: 400.0, BASELINE: 300.0}
        self.gain: float | None = 2.0
        self.hits: dict[Path, float | None] = {SPECULATIVE: 0.9, BASELINE: 0.9}
        self.age = 0.0

    def run(self, seconds: int) -> Harm:
        for _ in range(seconds):
            self.now += 1.0
            found = {
                path: PathLive(
                    self.active[path],
                    self.now - self.age,
                    self.rates[path],
                    self.gain if path is SPECULATIVE else None,
                    self.hits[path],
                )
                for path in Path
            }
            self.harm = self.harm.look(Live(found[SPECULATIVE], found[BASELINE]), self.now)
        return self.harm


def test_a_healthy_engine_is_left_alone() -> None:
    bench = Bench()
    assert not bench.run(600).degraded
    assert (bench.harm.since, bench.harm.reason) == ((), None)


def test_an_accept_length_near_1_degrades_after_its_window() -> None:
    bench = Bench()
    bench.gain = 1.02
    assert not bench.run(29).degraded
    found = bench.run(3)
    assert (found.degraded, found.reason) == (True, Sign.ACCEPT_LENGTH)


def test_a_sign_that_goes_starts_its_window_anew() -> None:
    bench = Bench()
    for _ in range(10):
        bench.gain = 1.02
        bench.run(25)
        bench.gain = 2.0
        assert not bench.run(2).degraded


def test_a_reading_of_the_baseline_counts_once_however_often_it_is_looked_at() -> None:
    """The pair looks ten times a second and an engine is read once: its rate would drown those before."""
    harm, now = Harm(), 0.0
    for second, rate in enumerate((300.0,) * 15 + (600.0,)):
        live = Live(baseline=PathLive(4, float(second), rate))
        for _ in range(10):
            harm = harm.look(live, now)
            now += 0.1
    assert dict(harm.rates)[2] == pytest.approx(300.0 + 0.2 * (600.0 - 300.0))


def test_a_lost_prefix_cache_degrades() -> None:
    bench = Bench()
    bench.hits[SPECULATIVE] = 0.2
    assert not bench.run(100).degraded
    assert bench.run(30).why is Sign.PREFIX_CACHE


@pytest.mark.parametrize("others", [None, 0.3])
def test_without_hits_on_the_baseline_a_cold_cache_is_no_sign(others: float | None) -> None:
    bench = Bench()
    bench.hits = {SPECULATIVE: 0.0, BASELINE: others}
    assert not bench.run(600).degraded


def test_speculation_far_slower_than_the_baseline_was_at_its_load_degrades() -> None:
    bench = Bench()
    bench.active = {SPECULATIVE: 0, BASELINE: 4}
    bench.run(60)
    assert dict(bench.harm.rates) == {2: pytest.approx(300.0)}
    bench.active = {SPECULATIVE: 4, BASELINE: 0}
    bench.rates[SPECULATIVE] = 120.0
    assert not bench.run(40).degraded
    assert bench.run(40).why is Sign.SLOW


def test_nothing_is_slow_while_mixed_at_an_unknown_load_or_by_a_little() -> None:
    bench = Bench()
    bench.active = {SPECULATIVE: 0, BASELINE: 4}
    bench.run(60)
    bench.rates[SPECULATIVE] = 120.0
    bench.active = {SPECULATIVE: 4, BASELINE: 1}
    assert not bench.run(200).degraded
    bench.active = {SPECULATIVE: 16, BASELINE: 0}
    assert not bench.run(200).degraded
    bench.active = {SPECULATIVE: 4, BASELINE: 0}
    bench.rates[SPECULATIVE] = 200.0
    assert not bench.run(200).degraded
    bench.rates[SPECULATIVE] = None
    assert not bench.run(200).degraded


def test_what_is_unknown_stale_or_idle_is_no_sign() -> None:
    bench = Bench()
    bench.gain = 1.0
    bench.age = 60.0
    assert not bench.run(200).degraded
    bench.age = 0.0
    bench.active = {SPECULATIVE: 0, BASELINE: 0}
    assert not bench.run(200).degraded
    bench.active = {SPECULATIVE: 4, BASELINE: 0}
    bench.gain = None
    bench.hits = {SPECULATIVE: None, BASELINE: None}
    assert not bench.run(200).degraded


def test_after_the_hold_it_is_tried_and_a_sign_that_is_still_there_doubles_the_hold() -> None:
    bench = Bench()
    bench.gain = 1.0
    holds = []
    for _ in range(8):
        while not bench.run(1).degraded:
            pass
        began = bench.now
        while bench.run(1).degraded:
            pass
        holds.append(bench.now - began)
    assert holds[:3] == [HOLD, 2 * HOLD, 4 * HOLD]
    assert holds[-1] == LONGEST_HOLD
    assert bench.harm.trial_at == bench.now


def test_a_trial_is_short_and_one_that_goes_well_is_trusted_again() -> None:
    bench = Bench()
    bench.gain = 1.0
    bench.run(31 + int(HOLD))
    assert bench.harm.trial_at is not None
    began = bench.now
    while not bench.run(1).degraded:
        pass
    assert bench.now - began <= 12.0
    bench.gain = 2.0
    bench.run(int(2 * HOLD) + 2)
    assert not bench.harm.degraded
    bench.run(301)
    assert bench.harm.trial_at is None
    assert bench.harm.hold == HOLD


def test_an_idle_path_is_not_trusted_for_doing_nothing() -> None:
    bench = Bench()
    bench.harm = replace(bench.harm, trial_at=bench.now, hold=4 * HOLD)
    bench.active = {SPECULATIVE: 0, BASELINE: 4}
    bench.run(600)
    assert bench.harm.hold == 4 * HOLD


def test_a_pair_sends_its_requests_to_the_baseline_meanwhile() -> None:
    clock, observer = FakeClock(), RecordingObserver()
    ledger = Ledger(clock)
    engines = {path: EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2)) for path in Path}
    policy = FixedPolicy(SPECULATIVE, "threshold", dwell=10.0)
    pair = Pair(
        "p",
        Placement.SHARED,
        engines,
        policy,
        ledger,
        clock,
        observer,
        measure=lambda path: PathLive(at=clock(), accept_length=1.0),
    )
    ledger.open().start(SPECULATIVE)
    for _ in range(32):
        pair.evaluate()
        clock.advance(1.0)
    assert [(switch.target, switch.reason) for switch in observer.switches] == [
        (BASELINE, SwitchReason.DEGRADED)
    ]
    decision = pair.decide()
    assert decision is not None
    assert (decision.path, decision.reason) == (BASELINE, DecisionReason.FAILOVER)
