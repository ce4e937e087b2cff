"""The calibrated policy, rule by rule; its properties are in `tests/property`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.core.calibrated import CalibratedPolicy
from router.core.calibration import Calibration, Cell, Key, PathCalibration, Workload
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.learned import AcceptLength, Learned, learn
from router.core.ledger import Ledger
from router.core.live import Live, PathLive
from router.core.marginal import MarginalPolicy
from router.core.pace import Engine, Scale, Watch
from router.core.pair import Pair
from router.core.policy import FixedPolicy, Policy, PolicyState, Snapshot, Switch, ThresholdPolicy
from router.core.price import Tariff, gain
from router.core.shadow import Shadow
from router.core.words import DecisionReason, Outcome, Path, Placement, SwitchReason
from tests.support import FakeClock, RecordingObserver
from tests.support.sweeps import linear
from tests.support.world import World

SPECULATIVE, BASELINE = Path
BOTH = frozenset(Path)


def world(crossover: float = 12.0, n: int = 4) -> World:
    engines = linear(crossover)
    return World(CalibratedPolicy(engines), engines, engines.accept_length, n)


def test_it_goes_up_far_above_the_crossover_at_once_and_comes_back_after_the_dwell() -> None:
    pair = world()
    pair.run(60.0)
    pair.n = 100
    pair.run(1.0)
    (up,) = pair.switches
    assert (up.target, up.reason) == (BASELINE, SwitchReason.HIGH)
    assert up.inputs is not None
    assert up.inputs.rule == "band"
    assert up.inputs.crossover == pytest.approx(12.0, rel=0.1)
    pair.n = 2
    pair.run(120.0)
    down = pair.switches[1]
    assert (down.target, down.reason) == (SPECULATIVE, SwitchReason.LOW)
    assert down.at - up.at >= 10.0
    assert len(pair.switches) == 2


def test_bursts_that_never_last_are_met_once_at_most_and_a_lasting_load_is_met() -> None:
    """How long such a load stays is not known at first; that it was over at once is then remembered."""
    pair = world()
    pair.run(60.0)
    for _ in range(20):
        pair.n = 16
        pair.run(1.0)
        pair.n = 4
        pair.run(9.0)
    assert [switch.target for switch in pair.switches] in ([], [BASELINE, SPECULATIVE])
    before = len(pair.switches)
    pair.n = 16
    pair.run(300.0)
    assert [switch.target for switch in pair.switches[before:]] == [BASELINE]


@pytest.mark.parametrize("n", [100, 30])
def test_what_is_lost_is_lost_by_everybody_who_waits(n: int) -> None:
    """Answers so long that no drain is expected to end before the burst: only regret can tell.

    100 requests where 2 are usual lose fifty times as fast as 2 would.
    """
    engines = linear(12.0)
    long = replace(engines.speculative, drain_seconds=(500.0,))
    pair = World(CalibratedPolicy(replace(engines, speculative=long)), engines, 2.0, 2)
    pair.run(200.0)
    assert pair.state.learned is not None
    assert pair.state.learned.usual == pytest.approx(2.0, abs=0.1)
    pair.n = n
    began = pair.now
    pair.run(60.0)
    (up, *_) = pair.switches
    assert up.inputs is not None
    assert up.inputs.rule == "regret"
    lost = gain(BASELINE, 2.0, Tariff(engines, (0.7, 0.5)).hurdle(n)) - 0.02
    unweighted = 3.0 * max(2.0, up.inputs.price) / lost
    assert up.at - began < 0.3 * unweighted


def test_inside_the_band_regret_adds_up_until_the_switch_has_paid_for_itself() -> None:
    pair = world()
    pair.run(60.0)
    pair.n = 14  # above the crossover of 12, below the high watermark of 15
    pair.run(600.0)
    (switch,) = pair.switches
    assert switch.inputs is not None
    assert switch.inputs.rule == "regret"
    assert switch.inputs.regret >= max(1.0, switch.inputs.price)


def test_a_load_that_has_always_been_so_is_met_as_soon_as_the_price_is_lost() -> None:
    pair = world(n=14)
    pair.run(600.0)
    (switch,) = pair.switches
    assert switch.inputs is not None
    assert switch.inputs.rule == "regret"
    assert 2.0 <= switch.inputs.regret < 2.5


def test_a_return_that_the_measurement_disappoints_raises_a_doubt() -> None:
    pair = world(n=3)
    pair.run(60.0)
    pair.n = 100
    pair.run(30.0)
    pair.n = 3
    while len(pair.switches) < 2:
        pair.run(0.5)
    assert pair.switches[1].target is SPECULATIVE
    pair.accept_length = 1.0
    pair.run(40.0)
    assert len(pair.switches) == 3
    assert pair.state.learned is not None
    assert pair.state.learned.accept.doubts == 1


def test_a_load_that_stays_is_met_although_earlier_stays_were_short() -> None:
    pair = world(n=6)
    pair.run(60.0)
    state = pair.state
    assert state.learned is not None
    pair.state = replace(
        state, active=BASELINE, regime=BASELINE, learned=replace(state.learned, stays=(2.0, 2.0))
    )
    pair.run(600.0)
    (switch,) = pair.switches
    assert switch.target is SPECULATIVE
    assert switch.inputs is not None
    assert switch.inputs.regret >= 5.0


def test_where_speculation_never_wins_it_starts_and_stays_on_baseline() -> None:
    engines = replace(linear(12.0), speculative=linear(12.0, step=0.05).speculative)
    policy = CalibratedPolicy(engines)
    assert policy.first_path is BASELINE
    pair = World(policy, engines, engines.accept_length, 1)
    for n in (0, 1, 5, 0, 40, 0):
        pair.n = n
        pair.run(30.0)
    assert pair.switches == []


def test_where_it_always_wins_no_load_leaves_it() -> None:
    engines = replace(linear(12.0), baseline=linear(12.0, step=0.2).baseline)
    pair = World(CalibratedPolicy(engines), engines, engines.accept_length, 1)
    for n in (1, 100, 1000):
        pair.n = n
        pair.run(60.0)
    assert pair.switches == []
    assert pair.state.learned is not None
    assert pair.state.learned.band is not None
    assert pair.state.learned.band.high is None


def test_an_idle_pair_comes_back_for_nothing() -> None:
    pair = world()
    pair.n = 100
    pair.run(60.0)
    assert pair.state.active is BASELINE
    pair.n = 0
    pair.run(90.0)
    down = pair.switches[-1]
    assert down.target is SPECULATIVE
    assert down.inputs is not None
    assert (down.inputs.price, down.inputs.drain) == (0.0, 0.0)


def test_a_return_that_lasts_takes_doubts_back() -> None:
    pair = world(n=3)
    pair.run(30.0)
    state = pair.state
    assert state.learned is not None
    doubtful = replace(state.learned, accept=replace(state.learned.accept, doubts=3), returned_with=2.0)
    pair.state = replace(state, learned=doubtful)
    pair.run(50.0)
    assert pair.state.learned is not None
    assert pair.state.learned.accept.doubts == 3
    pair.run(60.0)
    assert pair.state.learned is not None
    assert (pair.state.learned.accept.doubts, pair.state.learned.returned_with) == (0, None)


def test_a_detour_gathers_no_regret() -> None:
    policy = CalibratedPolicy(linear(12.0))
    state = PolicyState()
    for second in range(120):
        seen = Snapshot(1000.0 + second, 14, BOTH, pin=BASELINE)
        state, switch = policy.step(state, seen)
        assert switch is None or switch.reason is SwitchReason.PIN
    assert state.learned is not None
    assert state.learned.regret == 0.0


@pytest.mark.parametrize(("smoothing", "half_life"), [(-1.0, 1.0), (1.0, 0.0)])
def test_impossible_numbers_are_refused(smoothing: float, half_life: float) -> None:
    with pytest.raises(ValueError):
        CalibratedPolicy(linear(12.0), smoothing, half_life)


def test_an_accept_length_of_before_the_last_switch_is_not_taken() -> None:
    policy = CalibratedPolicy(linear(12.0))
    state = PolicyState(switched_at=1000.0)
    live = Live(PathLive(2, 1001.0, None, 1.5))
    state, _ = policy.step(state, Snapshot(1001.0, 2, BOTH, live=live))
    assert state.learned is not None
    assert state.learned.accept.value is None
    live = Live(PathLive(2, 1004.0, None, 1.5))
    state, _ = policy.step(state, Snapshot(1004.0, 2, BOTH, live=live))
    assert state.learned is not None
    assert state.learned.accept.value == 1.5


# Learning.


def test_accept_lengths_are_smoothed_by_the_time_between_readings() -> None:
    first = AcceptLength().take(PathLive(1, 10.0, None, 2.0), 10.0, 0.0)
    second = first.take(PathLive(1, 13.0, None, 3.0), 13.0, 0.0)
    assert second.value == pytest.approx(2.0 + (1 - 2.718281828**-1.0))
    assert second.age(20.0) == 7.0
    assert AcceptLength().age(20.0) is None
    assert AcceptLength().used(20.0, 2.5, 60.0) == 2.5


def test_doubts_are_bounded() -> None:
    accept = AcceptLength(1.0, 0.0)
    for _ in range(20):
        accept = accept.doubted()
    assert accept.doubts == 6
    assert accept.used(64 * 60.0, 2.0, 60.0) == pytest.approx(1.5)


def test_a_factor_waits_for_samples_and_ignores_a_single_outlier() -> None:
    scale = Scale()
    for at in range(4):
        scale = scale.take(1.5, float(at))
    assert scale.factor == 1.0
    for at in range(4, 200):
        scale = scale.take(1.5, float(at))
    assert 1.0 < scale.factor < 1.18
    calm = Scale(samples=50, at=0.0).take(1000.0, 1.0)
    assert calm.factor == pytest.approx(1.0, abs=0.001)


def watch(active: int, level: float) -> Watch:
    return Watch(0.0, level, active)


@pytest.mark.parametrize(
    ("live", "seen", "excess", "calm_at", "counts"),
    [
        (PathLive(4, 99.0, 100.0), watch(4, 4.0), 0, None, True),
        (PathLive(4, 99.0, 100.0), watch(4, 4.0), 2, None, False),
        (PathLive(4, 99.0, 100.0), watch(4, 4.0), 0, 101.0, False),
        (PathLive(4, 99.0, 100.0), watch(4, 4.0), 0, 99.0, True),
        (PathLive(4, 99.0, 100.0), watch(4, 9.0), 0, None, False),
        (PathLive(4, 9.0, 100.0), watch(4, 4.0), 0, None, False),
        (PathLive(4, 99.0, None), watch(4, 4.0), 0, None, False),
        (PathLive(4, None, 100.0), watch(4, 4.0), 0, None, False),
        (PathLive(4, 99.0, -1.0), watch(4, 4.0), 0, None, False),
        (PathLive(4, 999.0, 100.0), watch(4, 4.0), 0, None, False),
        (PathLive(0, 99.0, 100.0), watch(4, 4.0), 0, None, False),
        (PathLive(4, 99.0, 100.0), Watch(), 0, None, False),
        (PathLive(300, 99.0, 100.0), watch(300, 300.0), 0, None, False),
    ],
    ids=str,
)
def test_only_a_warm_steady_undisturbed_moment_is_a_sample(
    live: PathLive, seen: Watch, excess: int, calm_at: float | None, counts: bool
) -> None:
    learned = Learned(baseline=Engine(watch=seen), looked_at=100.0, calm_at=calm_at)
    after = learn(learned, Live(baseline=live), 100.0, linear(12.0), settled_at=0.0, excess=excess)
    assert (after.baseline.scale.samples == 1) is counts
    assert after.speculative.scale.samples == 0


def test_a_reading_counts_once_and_an_accept_length_near_1_gives_no_speed() -> None:
    engines = linear(12.0)
    live = Live(PathLive(4, 99.0, 100.0, 2.0))
    learned = Learned(speculative=Engine(watch=watch(4, 4.0)), looked_at=99.0)
    after = learn(learned, live, 99.0, engines, settled_at=0.0, excess=0)
    assert after.speculative.scale.samples == 1
    again = learn(after, live, 100.0, engines, settled_at=0.0, excess=0)
    assert again.speculative.scale.samples == 1
    flat = Live(PathLive(4, 99.0, 100.0, 1.1))
    assert learn(learned, flat, 99.0, engines, settled_at=0.0, excess=0).speculative.scale.samples == 0


def test_on_gpus_of_their_own_the_other_engine_does_not_disturb() -> None:
    shared, apart = linear(12.0), replace(linear(12.0), key=Key(placement=Placement.SEPARATE))
    learned = Learned(baseline=Engine(watch=watch(4, 4.0)), looked_at=100.0)
    live = Live(PathLive(1, 99.0, None, 2.0), PathLive(4, 99.0, 100.0))
    for engines, counts in ((shared, 0), (apart, 1)):
        after = learn(learned, live, 100.0, engines, settled_at=0.0, excess=0)
        assert after.baseline.scale.samples == counts


def test_an_opened_breaker_freezes_the_factors_for_a_while() -> None:
    learned = learn(Learned(), Live(faults=1), 100.0, linear(12.0), settled_at=0.0, excess=0)
    assert (learned.faults, learned.calm_at) == (1, 160.0)
    later = learn(learned, Live(faults=1), 130.0, linear(12.0), settled_at=0.0, excess=0)
    assert later.calm_at == 160.0


# Prices.


def test_a_switch_costs_the_drain_and_the_prefixes_that_are_lost() -> None:
    engines = replace(
        linear(12.0),
        workload=Workload(1000.0, 200.0),
        baseline=replace(linear(12.0).baseline, prefill_seconds_per_token=1e-4),
    )
    tariff = Tariff(engines, (0.7, 0.5))
    assert tariff.price(BASELINE, 10, 0, 2.0).seconds == 0.0
    price = tariff.price(BASELINE, 10, 10, 2.0)
    assert price.drain == engines.drain_seconds(SPECULATIVE, 10)
    together = 0.7 * engines.tokens_per_second(SPECULATIVE, 5, 2.0)
    together += 0.5 * engines.tokens_per_second(BASELINE, 5)
    lost = max(0.0, 1 - together / engines.tokens_per_second(SPECULATIVE, 10, 2.0))
    assert price.seconds == pytest.approx(lost * price.drain + 10 * 1000 * 1e-4)
    back = tariff.price(SPECULATIVE, 10, 10, 2.0)
    assert back.drain == engines.drain_seconds(BASELINE, 10)


def test_gains_are_of_throughput() -> None:
    engines = linear(12.0)
    hurdle = Tariff(engines, (0.7, 0.5)).hurdle(4)
    ratio = engines.tokens_per_second(SPECULATIVE, 4, 2.0) / engines.tokens_per_second(BASELINE, 4)
    assert gain(SPECULATIVE, 2.0, hurdle) == pytest.approx(ratio - 1)
    assert gain(BASELINE, 2.0, hurdle) == pytest.approx(1 / ratio - 1)


# Engines on GPUs of their own.


def apart(limit: int | None = None) -> MarginalPolicy:
    engines = linear(12.0)
    engines = replace(
        engines,
        key=Key(placement=Placement.SEPARATE),
        speculative=replace(engines.speculative, max_running_requests=limit),
    )
    return MarginalPolicy(CalibratedPolicy(engines))


def target(policy: MarginalPolicy, speculative: int, baseline: int, **changes: object) -> Path:
    seen = Snapshot(
        1000.0,
        speculative + baseline + 1,
        BOTH,
        live=Live(PathLive(speculative), PathLive(baseline)),
    )
    state, _ = policy.step(PolicyState(), replace(seen, **changes))  # type: ignore[arg-type]
    return state.overflow or state.active


def test_the_next_request_goes_where_it_adds_more() -> None:
    policy = apart()
    assert (policy.kind, policy.first_path) == ("calibrated", SPECULATIVE)
    assert target(policy, 0, 0) is SPECULATIVE
    assert target(policy, 40, 0) is BASELINE
    assert target(policy, 20, 100) is SPECULATIVE


def test_a_full_engine_is_passed_over_and_pins_and_outages_overflow_nowhere() -> None:
    assert target(apart(limit=2), 2, 0) is BASELINE
    assert target(apart(), 40, 0, pin=SPECULATIVE) is SPECULATIVE
    assert target(apart(), 40, 0, eligible=frozenset({SPECULATIVE})) is SPECULATIVE
    assert target(apart(), 40, 0, eligible=frozenset({BASELINE})) is BASELINE


def test_the_active_path_follows_what_a_lone_request_would_take() -> None:
    policy = apart()
    live = Live(PathLive(1, 1000.0, None, 1.0))
    state, switch = policy.step(PolicyState(), Snapshot(1000.0, 1, BOTH, live=live))
    assert switch is not None
    assert (switch.target, switch.reason, state.overflow) == (BASELINE, SwitchReason.HIGH, None)
    back = replace(state, learned=None)
    kept, switch = policy.step(back, Snapshot(1005.0, 1, BOTH))
    assert (switch, kept.active) == (None, BASELINE)
    kept, switch = policy.step(replace(kept, learned=None), Snapshot(1011.0, 1, BOTH))
    assert switch is not None
    assert (switch.target, switch.reason) == (SPECULATIVE, SwitchReason.LOW)


def a_pair(policy: Policy, placement: Placement = Placement.SHARED) -> tuple[Pair, Ledger, FakeClock]:
    clock = FakeClock()
    ledger = Ledger(clock)
    engines = {path: EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2)) for path in Path}
    return Pair("p", placement, engines, policy, ledger, clock, RecordingObserver()), ledger, clock


# A second policy that looks on.


def test_a_shadow_tells_of_its_switches_and_has_no_say() -> None:
    told: list[Switch] = []
    pair, ledger, clock = a_pair(FixedPolicy(SPECULATIVE, "pinned"))
    pair.shadow = Shadow(ThresholdPolicy(8, 3, 10.0, 0.0), told.append)
    leases = [ledger.open() for _ in range(9)]
    pair.evaluate()
    for lease in leases:
        lease.close(Outcome.OK)
    clock.advance(20.0)
    pair.evaluate()
    pair.evaluate()
    assert [switch.target for switch in told] == [BASELINE, SPECULATIVE]
    assert list(pair.switches) == []


def test_a_pair_shows_its_policy_what_is_measured_and_follows_its_overflow() -> None:
    pair, ledger, _ = a_pair(apart(), Placement.SEPARATE)
    for _ in range(40):
        ledger.open().start(SPECULATIVE)
    decision = pair.decide()
    assert decision is not None
    assert (decision.path, decision.reason) == (BASELINE, DecisionReason.POLICY)
    assert pair.active_path is SPECULATIVE
    assert list(pair.switches) == []


# Speculation that does harm.


def test_degraded_speculation_is_left_at_once_and_taken_up_again_after_the_dwell() -> None:
    policy = FixedPolicy(SPECULATIVE, "pinned", dwell=10.0)
    state, switch = policy.step(PolicyState(), Snapshot(0.0, 1, BOTH, degraded=True))
    assert switch is not None
    assert (switch.target, switch.reason) == (BASELINE, SwitchReason.DEGRADED)
    state, switch = policy.step(state, Snapshot(5.0, 1, BOTH))
    assert switch is None
    state, switch = policy.step(state, Snapshot(12.0, 1, BOTH))
    assert switch is not None
    assert (switch.target, switch.reason) == (SPECULATIVE, SwitchReason.RECOVERED)


def test_a_pin_and_a_dead_baseline_overrule_the_doubt() -> None:
    policy = FixedPolicy(SPECULATIVE, "pinned")
    for seen in (
        Snapshot(0.0, 1, BOTH, pin=SPECULATIVE, degraded=True),
        Snapshot(0.0, 1, frozenset({SPECULATIVE}), degraded=True),
    ):
        assert policy.step(PolicyState(), seen)[1] is None


def test_a_calibration_of_single_cells_still_decides() -> None:
    one = Calibration(
        Key(placement=Placement.SHARED),
        PathCalibration((Cell(1, (200.0,), (2.0,)),)),
        PathCalibration((Cell(1, (100.0,)),)),
    )
    pair = World(CalibratedPolicy(one), one, 2.0, 3)
    pair.run(60.0)
    assert pair.switches == []
