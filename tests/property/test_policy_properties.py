"""What no load, no outage and no operator can make a policy do."""

from __future__ import annotations

from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.failure import Effect
from router.core.health import BreakerRules, EngineHealth, HealthRules, Probe
from router.core.ledger import Ledger
from router.core.pair import Pair, Pin
from router.core.policy import FixedPolicy, Policy, PolicyState, Snapshot, Switch, ThresholdPolicy, observe_n
from router.core.words import DecisionReason, Outcome, Path, Placement, SwitchReason
from tests.property.walks import (
    BOTH,
    Recorder,
    by_reason,
    gaps,
    loads,
    paths,
    pins,
    policies,
    states,
    switches_of,
    walk,
    walks,
)
from tests.support import FakeClock, RecordingObserver
from tests.support.wishes import named

SPECULATIVE, BASELINE = Path
HIGH, LOW, FAILOVER, RECOVERED, PIN, UNPIN, _ = SwitchReason


def constant(n: int, spacing: list[float], eligible: frozenset[Path] = BOTH) -> list[Snapshot]:
    now, seen = 0.0, []
    for gap in spacing:
        now += gap
        seen.append(Snapshot(now, n, eligible))
    return seen


@given(policies(), states(), loads, st.lists(gaps, min_size=1, max_size=60))
def test_a_constant_load_causes_at_most_one_switch_from_any_start(
    policy: ThresholdPolicy, state: PolicyState, n: int, spacing: list[float]
) -> None:
    made = switches_of(policy, state, constant(n, spacing))
    assert len(made) <= 1
    assert all(switch.reason is (HIGH if n >= policy.high else LOW) for switch in made)


@given(policies(), states(), st.sampled_from([FAILOVER, PIN]), loads, st.lists(gaps, min_size=1, max_size=60))
def test_the_end_of_a_detour_adds_at_most_its_own_switch(
    policy: ThresholdPolicy, state: PolicyState, detour: SwitchReason, n: int, spacing: list[float]
) -> None:
    away = PolicyState(
        state.active.other,
        state.regime,
        state.switched_at,
        state.smoothed_n,
        state.last_n,
        state.seen_at,
        detour,
    )
    made = switches_of(policy, away, constant(n, spacing))
    assert len(by_reason(made, RECOVERED, UNPIN)) <= 1
    assert len(by_reason(made, HIGH, LOW)) <= 1
    assert len(by_reason(made, HIGH, LOW, RECOVERED, UNPIN)) == len(made)


@given(policies(dwells=(0.5, 2.0, 10.0)), states(), walks(steady=True))
def test_the_dwell_bounds_the_number_of_switches(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    made = switches_of(policy, state, seen)
    span = seen[-1].now - seen[0].now
    assert {switch.reason for switch in made} <= {HIGH, LOW}
    assert len(by_reason(made, LOW)) <= 1 + span / policy.dwell
    assert len(made) <= 2 + 2 * span / policy.dwell


@given(policies(dwells=(0.5, 2.0, 10.0)), states(), walks())
def test_outages_and_pins_do_not_loosen_the_bound_on_switches_that_wait(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    made = switches_of(policy, state, seen)
    down = by_reason(made, LOW)
    assert len(down) <= 1 + (seen[-1].now - seen[0].now) / policy.dwell
    assert all(later.at - earlier.at >= policy.dwell for earlier, later in pairwise(down))


@given(st.integers(-3, 12), st.integers(-3, 12))
def test_only_0_low_high_makes_a_policy(low: int, high: int) -> None:
    if 0 < low < high:
        policy = ThresholdPolicy(high, low, 1.0, 1.0)
        assert (policy.low, policy.high) == (low, high)
    else:
        with pytest.raises(ValueError):
            ThresholdPolicy(high, low, 1.0, 1.0)


@given(policies(), states(), walks(steady=True))
def test_up_is_immediate_and_down_needs_a_low_load_and_the_dwell(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    for before, at, after, switch in walk(policy, state, seen):
        if at.n >= policy.high:
            assert after.active is BASELINE
        if switch and switch.target is BASELINE:
            assert at.n >= policy.high
        if switch and switch.target is SPECULATIVE:
            assert after.smoothed_n <= policy.low
            assert at.n <= policy.low
            assert before.switched_at is None or at.now - before.switched_at >= policy.dwell


@given(policies(), states(), st.integers(0, 8))
def test_a_load_that_stays_low_comes_back_in_the_end(
    policy: ThresholdPolicy, state: PolicyState, below: int
) -> None:
    n = max(0, policy.low - 1 - below)
    # From 60 down to less than 1 above N: more than ln(60) time constants.
    wait = policy.dwell + 5 * policy.smoothing
    made = walk(policy, state, [Snapshot(0.0, n, BOTH), Snapshot(wait, n, BOTH)])
    assert made[-1][2].active is SPECULATIVE


@given(policies(), states(), walks())
def test_a_switch_says_what_happened_and_nothing_moves_without_one(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    for before, at, after, switch in walk(policy, state, seen):
        if switch is None:
            assert (after.active, after.switched_at) == (before.active, before.switched_at)
        else:
            expected = Switch(
                at.now, before.active, before.active.other, at.n, after.smoothed_n, switch.reason
            )
            assert switch == expected
            assert (after.active, after.switched_at) == (switch.target, at.now)


@given(st.one_of(policies(), st.builds(FixedPolicy, paths, st.just("pinned"))), states(), walks())
def test_traffic_goes_to_an_engine_that_can_serve_and_to_the_pinned_one_of_those(
    policy: Policy, state: PolicyState, seen: list[Snapshot]
) -> None:
    for before, at, after, switch in walk(policy, state, seen):
        if not at.eligible:
            assert (after.active, switch) == (before.active, None)
            continue
        assert after.active in at.eligible
        if at.pin in at.eligible:
            assert after.active is at.pin
        if switch and switch.reason is FAILOVER:
            wanted = at.pin or after.regime
            assert wanted not in at.eligible
            assert switch.target is wanted.other


@given(policies(), states(), walks())
def test_coming_back_after_an_outage_waits_for_the_dwell(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    for before, at, after, switch in walk(policy, state, seen):
        if switch and switch.reason is RECOVERED and before.active in at.eligible:
            assert before.detour is FAILOVER
            assert after.detour is None
            assert before.switched_at is None or at.now - before.switched_at >= policy.dwell


@given(policies(), states(), walks())
def test_the_regime_follows_the_load_alone(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    for before, at, after, _switch in walk(policy, state, seen):
        if at.n >= policy.high:
            assert after.regime is BASELINE
        elif at.n > policy.low:
            assert after.regime is before.regime


@given(st.floats(0, 60), loads, gaps, st.lists(gaps, max_size=8), st.sampled_from([0.25, 2.0, 8.0]))
def test_smoothing_does_not_depend_on_how_often_one_looks(
    start: float, n: int, first: float, more: list[float], smoothing: float
) -> None:
    state = PolicyState(smoothed_n=start, last_n=n, seen_at=0.0)
    looked_on, now = state, 0.0
    for gap in [first, *more]:
        now += gap
        looked_on = observe_n(looked_on, Snapshot(now, n, BOTH), smoothing)
    at_once = observe_n(state, Snapshot(now, n, BOTH), smoothing)
    assert looked_on.smoothed_n == pytest.approx(at_once.smoothed_n, abs=1e-9)
    assert min(start, n) - 1e-9 <= looked_on.smoothed_n <= max(start, n) + 1e-9


@given(policies(), states(), walks())
def test_a_policy_is_a_function_of_its_arguments(
    policy: ThresholdPolicy, state: PolicyState, seen: list[Snapshot]
) -> None:
    twin = ThresholdPolicy(policy.high, policy.low, policy.dwell, policy.smoothing)
    assert walk(policy, state, seen) == walk(twin, state, seen)


# The same with a pair around the policy.


class Rig:
    """A shared pair whose load, engines and pins a test sets at will."""

    def __init__(self, policy: Policy) -> None:
        self.clock = FakeClock()
        self.ledger = Ledger(self.clock)
        self.observer = RecordingObserver()
        self.recorder = Recorder(policy)
        self.engines = {path: EngineHealth(BreakerRules(1, 1, 4.0), HealthRules(1, 1)) for path in Path}
        self.pair = Pair(
            "default", Placement.SHARED, self.engines, self.recorder, self.ledger, self.clock, self.observer
        )
        self.first = self.pair.state

    def set_load(self, n: int) -> None:
        for lease in self.ledger.open_leases()[n:]:
            lease.close(Outcome.OK)
        while self.ledger.n < n:
            self.ledger.open()


@given(policies(), st.lists(st.tuples(gaps, loads), min_size=1, max_size=60))
def test_after_a_switch_the_old_path_gets_no_new_request(
    policy: ThresholdPolicy, steps: list[tuple[float, int]]
) -> None:
    rig = Rig(policy)
    for gap, n in steps:
        rig.clock.advance(gap)
        rig.set_load(n)
        decision = rig.pair.decide()
        served = rig.observer.switches[-1].target if rig.observer.switches else SPECULATIVE
        assert decision is not None
        assert (decision.path, decision.reason, decision.trial) == (served, DecisionReason.POLICY, False)


@given(policies(), st.lists(st.tuples(gaps, loads, paths), min_size=1, max_size=60))
def test_requests_that_name_their_path_do_not_pull_others_along(
    policy: ThresholdPolicy, steps: list[tuple[float, int, Path]]
) -> None:
    rig, twin = Rig(policy), Rig(policy)
    for gap, n, asked in steps:
        for each in (rig, twin):
            each.clock.advance(gap)
            each.set_load(n)
        pinned = rig.pair.decide(named(asked))
        assert pinned is not None
        assert (pinned.path, pinned.reason) == (asked, DecisionReason.HEADER)
        assert rig.pair.decide() == twin.pair.decide()
    assert rig.observer.switches == twin.observer.switches


sicknesses = st.sampled_from(["well", "doubted", "refusing", "broken"])


def ail(engine: EngineHealth, sickness: str, now: float) -> None:
    """Put an engine with thresholds of one into a state of health; `well` leaves a breaker as it is."""
    if sickness == "broken":
        engine.record_result(Effect.FAILURE, now)
        return
    found = {"well": Probe.OK, "doubted": Probe.NOT_READY, "refusing": Probe.REFUSED}[sickness]
    engine.record_ready(found, now)


@given(st.lists(sicknesses, min_size=2, max_size=2), loads, pins, st.one_of(st.none(), paths))
def test_two_dead_engines_get_no_request_and_one_that_lives_gets_all(
    sick: list[str], n: int, pin: Path | None, asked: Path | None
) -> None:
    rig = Rig(ThresholdPolicy(8, 3, 1.0, 0.0))
    rig.set_load(n)
    rig.pair.pin = Pin(pin, "test", None) if pin else None
    for path, sickness in zip(Path, sick, strict=True):
        ail(rig.engines[path], sickness, rig.clock())
    dead = [path for path, sickness in zip(Path, sick, strict=True) if sickness in ("refusing", "broken")]
    decision = rig.pair.decide(named(asked))
    if len(dead) == 2:
        assert decision is None
        assert rig.observer.decisions == []
    else:
        assert decision is not None
        assert decision.path not in dead


@given(
    policies(),
    st.lists(st.tuples(gaps, loads, st.none() | st.tuples(paths, sicknesses), pins), min_size=1, max_size=60),
)
def test_the_record_of_what_was_seen_reproduces_every_switch(
    policy: ThresholdPolicy,
    steps: list[tuple[float, int, tuple[Path, str] | None, Path | None]],
) -> None:
    rig = Rig(policy)
    for gap, n, illness, pin in steps:
        rig.clock.advance(gap)
        rig.set_load(n)
        if illness:
            ail(rig.engines[illness[0]], illness[1], rig.clock())
        rig.pair.pin = Pin(pin, "test", rig.clock() + 1.0) if pin else rig.pair.pin
        rig.pair.evaluate()
    assert len(rig.recorder.seen) == len(steps)
    assert (
        switches_of(policy, rig.first, rig.recorder.seen) == rig.observer.switches == list(rig.pair.switches)
    )


@given(policies(), walks(steady=True))
def test_a_band_of_one_request_still_separates_up_from_down(
    policy: ThresholdPolicy, seen: list[Snapshot]
) -> None:
    narrow = ThresholdPolicy(policy.low + 1, policy.low, policy.dwell, policy.smoothing)
    made = switches_of(narrow, PolicyState(), seen)
    assert [switch.target for switch in made] == [to for to, _ in zip(cycle([BASELINE, SPECULATIVE]), made)]
