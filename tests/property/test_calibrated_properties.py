"""What no load, accept length or measurement can make the calibrated policy do."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.calibrated import CalibratedPolicy
from router.core.calibration import Calibration, Reach
from router.core.live import Live, PathLive
from router.core.pace import PACE, WIDEST
from router.core.policy import PolicyState, Snapshot, Switch
from router.core.words import Path, SwitchReason
from tests.property.walks import BOTH, gaps, loads, paths
from tests.support.sweeps import linear
from tests.support.world import World

SPECULATIVE, BASELINE = Path
HIGH, LOW = SwitchReason.HIGH, SwitchReason.LOW

plants = st.builds(
    linear,
    st.sampled_from([2.0, 6.0, 12.0, 30.0]),
    st.sampled_from([2.0, 2.8]),
    step=st.sampled_from([0.004, 0.02]),
    slope=st.sampled_from([0.0001, 0.001]),
)
policies = st.builds(CalibratedPolicy, plants, st.sampled_from([0.0, 2.0]), st.sampled_from([60.0, 300.0]))
anything = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, math.nan, math.inf, -1.0]))
lengths = st.floats(1.0, 5.0)


@st.composite
def lives(draw: st.DrawFn, now: float, values: st.SearchStrategy[Any] = anything) -> Live:
    def one() -> PathLive:
        return PathLive(
            draw(st.integers(0, 60)), draw(st.one_of(st.just(now), values)), draw(values), draw(values)
        )

    return Live(one(), one(), draw(st.integers(0, 2)))


@st.composite
def walks(draw: st.DrawFn) -> list[Snapshot]:
    """Any load and any measurements, both engines able to serve."""
    now, seen = 1000.0, []
    for gap, n in draw(st.lists(st.tuples(gaps, loads), min_size=1, max_size=40)):
        now += gap
        seen.append(Snapshot(now, n, BOTH, live=draw(lives(now))))
    return seen


def follow(
    policy: CalibratedPolicy, state: PolicyState, seen: list[Snapshot]
) -> list[tuple[PolicyState, Switch | None]]:
    made = []
    for each in seen:
        state, switch = policy.step(state, each)
        made.append((state, switch))
    return made


@settings(max_examples=30)
@given(policies, paths, loads, lengths, st.lists(gaps, min_size=1, max_size=60))
def test_a_constant_load_and_accept_length_cause_at_most_one_switch(
    policy: CalibratedPolicy, start: Path, n: int, accept_length: float, spacing: list[float]
) -> None:
    state, now, made = PolicyState(active=start, regime=start), 1000.0, []
    for gap in spacing:
        now += gap
        live = Live(PathLive(n, now, None, accept_length), PathLive(0, now))
        state, switch = policy.step(state, Snapshot(now, n, BOTH, live=live))
        made += [switch] if switch else []
    # The first look may still reckon with the prior, the second one knows better.
    assert len(made) <= 1 or (len(made) == 2 and made[0].inputs and made[0].inputs.accept_length_age is None)


@settings(max_examples=15)
@given(plants, st.integers(1, 60), st.sampled_from([0.5, 0.8, 0.95, 1.0, 1.05, 1.3, 2.0]))
def test_never_flaps_where_only_speculation_shows_its_accept_length(
    engines: Calibration, n: int, share: float
) -> None:
    policy = CalibratedPolicy(engines, half_life=60.0)
    world = World(policy, engines, max(1.0, engines.accept_length * share), n, step=2.0)
    world.run(2400.0)
    returns = [switch for switch in world.switches if switch.reason is LOW]
    # Each return that disappoints doubles the time to the next one.
    assert len(returns) <= 9
    assert sum(each.at > world.now - 1200.0 for each in returns) <= 2
    assert len(world.switches) <= 2 * len(returns) + 1


@settings(max_examples=30)
@given(policies, paths, walks())
def test_the_dwell_bounds_the_returns(policy: CalibratedPolicy, start: Path, seen: list[Snapshot]) -> None:
    made = [switch for _, switch in follow(policy, PolicyState(active=start, regime=start), seen) if switch]
    down = [switch for switch in made if switch.reason is LOW]
    assert {switch.reason for switch in made} <= {HIGH, LOW}
    assert len(down) <= 1 + (seen[-1].now - seen[0].now) / policy.dwell
    assert all(later.at - earlier.at >= policy.dwell for earlier, later in pairwise(down))
    assert all(later.at - earlier.at >= policy.dwell for earlier, later in pairwise(made) if later in down)


@settings(max_examples=30)
@given(policies, walks())
def test_low_is_below_high_whatever_is_measured_and_factors_stay_within_their_bounds(
    policy: CalibratedPolicy, seen: list[Snapshot]
) -> None:
    before = PolicyState()
    for at, (state, _) in zip(seen, follow(policy, before, seen), strict=True):
        learned = state.learned
        assert learned is not None
        assert learned.band is not None
        low, high = learned.band.low, learned.band.high
        if low is not None and high is not None:
            assert 0 < low < high
        assert (low is None) is (learned.band.crossover.reach is Reach.NONE)
        for path in Path:
            assert abs(learned.scale(path).log) <= WIDEST + 1e-9
        assert 1.0 <= policy.accept_length(learned, at.now) <= 64.0
        assert math.isfinite(learned.regret)


@settings(max_examples=30)
@given(policies, walks())
def test_the_record_of_what_was_seen_reproduces_every_switch_and_its_inputs(
    policy: CalibratedPolicy, seen: list[Snapshot]
) -> None:
    first = follow(policy, PolicyState(), seen)
    twin = CalibratedPolicy(policy.calibration, policy.smoothing, policy.half_life)
    assert repr(follow(twin, PolicyState(), seen)) == repr(first)
    before = PolicyState()
    for at, (state, switch) in zip(seen, first, strict=True):
        # A single switch can be made again from the memory before it alone, as its record holds it.
        assert repr(policy.step(before, at)[1]) == repr(switch)
        before = state


@settings(max_examples=30)
@given(policies, walks())
def test_a_switch_carries_what_decided_it(policy: CalibratedPolicy, seen: list[Snapshot]) -> None:
    for state, switch in follow(policy, PolicyState(), seen):
        if switch:
            assert switch.inputs is not None
            assert switch.inputs.policy == "calibrated/2"
            assert switch.inputs.rule in ("band", "regret")
            assert switch.inputs.gain > 0
            assert switch.inputs.price >= 0
            assert state.active is switch.target


unusable = st.sampled_from([None, math.nan, math.inf, 0.0, -3.0])


@settings(max_examples=30)
@given(policies, st.lists(st.tuples(gaps, loads, unusable, unusable), min_size=1, max_size=40))
def test_values_that_are_missing_or_not_numbers_are_ignored(
    policy: CalibratedPolicy, steps: list[tuple[float, int, float | None, float | None]]
) -> None:
    now, told, silent = 1000.0, PolicyState(), PolicyState()
    for gap, n, rate, gain in steps:
        now += gap
        bad = Live(PathLive(n, now, rate, gain), PathLive(0, now, rate, gain))
        none = Live(PathLive(n), PathLive(0))
        told, switch = policy.step(told, Snapshot(now, n, BOTH, live=bad))
        silent, twin = policy.step(silent, Snapshot(now, n, BOTH, live=none))
        assert switch == twin
        assert told == silent


@settings(max_examples=30)
@given(policies, st.floats(1.0, 5.0), st.floats(0.1, 100.0))
def test_a_reading_that_was_seen_before_or_is_of_another_time_teaches_nothing_new(
    policy: CalibratedPolicy, gain: float, off: float
) -> None:
    live = Live(PathLive(4, 1000.0, 100.0, gain), PathLive(0, 1000.0))
    state, _ = policy.step(PolicyState(), Snapshot(1000.0, 4, BOTH, live=live))
    again, _ = policy.step(state, Snapshot(1001.0, 4, BOTH, live=live))
    future = Live(replace(live.speculative, at=1001.0 + off), live.baseline)
    ahead, _ = policy.step(state, Snapshot(1001.0, 4, BOTH, live=future))
    for each in (again, ahead):
        assert each.learned is not None
        assert state.learned is not None
        assert each.learned.accept == state.learned.accept


@settings(max_examples=15)
@given(plants, st.sampled_from([0.5, 0.6, 0.7]))
def test_while_speculation_serves_a_step_of_the_accept_length_is_followed_within_the_dwell(
    engines: Calibration, share: float
) -> None:
    policy = CalibratedPolicy(engines)
    n = max(1, int(0.6 * engines.crossover(engines.accept_length).n))
    world = World(policy, engines, engines.accept_length, n)
    world.run(120.0)
    assert world.switches == []
    world.accept_length = max(1.0, engines.accept_length * share)
    stepped = world.now
    world.run(policy.dwell)
    learned = world.state.learned
    assert learned is not None
    if not world.switches:
        used = policy.accept_length(learned, world.now)
        assert used == pytest.approx(world.accept_length, rel=0.05)
    now = engines.tokens_per_second(SPECULATIVE, n, world.accept_length)
    if engines.tokens_per_second(BASELINE, n) > 1.1 * now:
        assert [switch.target for switch in world.switches] == [BASELINE]
        assert world.switches[0].at - stepped <= policy.dwell


@settings(max_examples=15)
@given(plants, st.sampled_from([0.5, 0.7, 1.4]), st.floats(0.0, 2000.0))
def test_while_baseline_serves_the_value_ages_towards_the_prior_and_its_age_is_told(
    engines: Calibration, share: float, seconds: float
) -> None:
    policy = CalibratedPolicy(engines, half_life=100.0)
    prior = engines.accept_length
    live = Live(PathLive(2, 1000.0, None, max(1.0, prior * share)), PathLive(0, 1000.0))
    state, _ = policy.step(PolicyState(), Snapshot(1000.0, 2, BOTH, live=live))
    away = Live(PathLive(0), PathLive(200))
    state, _ = policy.step(
        replace(state, active=BASELINE, regime=BASELINE), Snapshot(1000.0 + seconds, 200, BOTH, live=away)
    )
    assert state.learned is not None
    measured = state.learned.accept.value
    assert measured == max(1.0, prior * share)
    assert state.learned.accept.age(1000.0 + seconds) == pytest.approx(seconds)
    expected = prior + (measured - prior) * 0.5 ** (seconds / 100.0)
    assert policy.accept_length(state.learned, 1000.0 + seconds) == pytest.approx(expected)


@settings(max_examples=4)
@given(st.sampled_from([8.0, 12.0]), st.sampled_from([1.5, 2.0, 3.0]))
def test_a_speculative_engine_slower_than_calibrated_is_noticed_and_the_crossover_moves_slowly(
    crossover: float, slower: float
) -> None:
    engines = linear(crossover)
    policy = CalibratedPolicy(engines)
    world = World(policy, engines, engines.accept_length, 1, step=1.0)
    world.slower[SPECULATIVE] = slower
    world.run(20.0)
    previous = world.state.learned
    assert previous is not None
    began = previous.band
    for _ in range(20):
        world.run(60.0)
        learned = world.state.learned
        assert learned is not None
        assert abs(learned.speculative.scale.log - previous.speculative.scale.log) <= PACE * 61.0
        previous = learned
    if world.state.active is SPECULATIVE:
        assert previous.speculative.scale.factor == pytest.approx(min(2.0, slower), rel=0.03)
    assert previous.band is not None
    assert began is not None
    assert previous.band.crossover.n < began.crossover.n * 0.8
    assert previous.baseline.scale.samples == 0 or previous.baseline.scale.factor == pytest.approx(
        1.0, rel=0.02
    )


def test_samples_while_mixed_or_after_a_breaker_opened_teach_nothing() -> None:
    engines = linear(12.0)
    world = World(CalibratedPolicy(engines), engines, engines.accept_length, 4)
    world.slower[SPECULATIVE] = 2.0
    for _ in range(20):
        world.faults += 1
        world.run(30.0)
    assert world.state.learned is not None
    assert world.state.learned.speculative.scale.samples == 0
