"""Policies, snapshot by snapshot."""

from __future__ import annotations

import math

import pytest

from router.core.policy import FixedPolicy, Policy, PolicyState, Snapshot, Switch, ThresholdPolicy, observe_n
from router.core.words import Path, SwitchReason

SPECULATIVE, BASELINE = Path
BOTH = frozenset(Path)
SPEC_ONLY, BASE_ONLY, NONE = frozenset({SPECULATIVE}), frozenset({BASELINE}), frozenset[Path]()
PLAIN = ThresholdPolicy(high=8, low=3, dwell=10.0, smoothing=0.0)
SMOOTH = ThresholdPolicy(high=8, low=3, dwell=10.0, smoothing=2.0)


def walk(policy: Policy, *steps: Snapshot, state: PolicyState | None = None) -> list[Switch | None]:
    """What each snapshot in turn made of the active path."""
    state = state or PolicyState(active=policy.first_path, regime=policy.first_path)
    made = []
    for seen in steps:
        state, switch = policy.step(state, seen)
        made.append(switch)
    return made


def told(switches: list[Switch | None]) -> list[str]:
    return [f"{switch.target}: {switch.reason}" if switch else "" for switch in switches]


def at(now: float, n: int, eligible: frozenset[Path] = BOTH, pin: Path | None = None) -> Snapshot:
    return Snapshot(now, n, eligible, pin)


@pytest.mark.parametrize(("high", "low"), [(8, 8), (3, 8), (8, 0), (8, -1), (0, 0), (1, 1)])
def test_watermarks_that_are_not_0_low_high_are_refused(high: int, low: int) -> None:
    with pytest.raises(ValueError, match=f"0 < low < high is required, not low={low}, high={high}"):
        ThresholdPolicy(high, low, 10.0, 2.0)


@pytest.mark.parametrize(("dwell", "smoothing"), [(-0.1, 2.0), (10.0, -0.1)])
def test_negative_times_are_refused(dwell: float, smoothing: float) -> None:
    with pytest.raises(ValueError, match="dwell and smoothing must not be negative"):
        ThresholdPolicy(8, 3, dwell, smoothing)


def test_the_narrowest_band_and_no_times_are_fine() -> None:
    policy = ThresholdPolicy(high=2, low=1, dwell=0.0, smoothing=0.0)
    assert (policy.kind, policy.first_path) == ("threshold", SPECULATIVE)


@pytest.mark.parametrize(("n", "made"), [(7, ""), (8, "baseline: high"), (9, "baseline: high")])
def test_up_at_the_high_watermark_at_once(n: int, made: str) -> None:
    assert told(walk(SMOOTH, at(0.0, 1), at(0.125, n))) == ["", made]


@pytest.mark.parametrize(("n", "made"), [(4, ""), (3, "speculative: low"), (0, "speculative: low")])
def test_down_at_the_low_watermark_after_the_dwell(n: int, made: str) -> None:
    steps = [at(50.0, 8), at(51.0, n), at(59.875, n), at(60.0, n)]
    assert told(walk(PLAIN, *steps)) == ["baseline: high", "", "", made]


def test_between_the_watermarks_nothing_changes_in_either_regime() -> None:
    calm = [at(float(now), n) for now, n in enumerate([4, 7, 5, 4, 7])]
    assert told(walk(PLAIN, *calm)) == [""] * 5
    busy = [at(20.0 + now, n) for now, n in enumerate([4, 7, 5, 4, 7])]
    assert told(walk(PLAIN, at(0.0, 8), *busy)) == ["baseline: high", *[""] * 5]


def test_up_does_not_wait_for_the_dwell() -> None:
    steps = [at(0.0, 8), at(10.0, 0), at(10.125, 8)]
    assert told(walk(PLAIN, *steps)) == ["baseline: high", "speculative: low", "baseline: high"]


def test_a_dip_of_n_is_smoothed_away_and_a_lasting_fall_is_not() -> None:
    busy = [at(0.0, 20), at(30.0, 20)]
    dip = [at(30.5, 0), at(31.0, 20), at(40.0, 20)]
    assert told(walk(SMOOTH, *busy, *dip)) == ["baseline: high", "", "", "", ""]
    # 20·exp(−t/2) ≤ 3 from t = 3.794 on
    fall = [at(40.0, 0), at(43.75, 0), at(43.875, 0)]
    assert told(walk(SMOOTH, *busy, *fall))[2:] == ["", "", "speculative: low"]


def test_a_smoothed_n_below_low_does_not_bring_back_a_load_above_it() -> None:
    state = PolicyState(active=BASELINE, regime=BASELINE, smoothed_n=0.0, last_n=0, seen_at=0.0)
    assert told(walk(SMOOTH, at(20.0, 7), state=state)) == [""]
    assert told(walk(SMOOTH, at(20.0, 3), state=state)) == ["speculative: low"]


def test_a_switch_carries_what_made_it() -> None:
    made = walk(SMOOTH, at(0.0, 4), at(2.0, 9))
    expected = Switch(2.0, SPECULATIVE, BASELINE, 9, 4 - 4 * math.exp(-1.0), SwitchReason.HIGH)
    assert made == [None, expected]


def test_an_engine_that_cannot_serve_is_left_at_once_whatever_n_is() -> None:
    assert told(walk(PLAIN, at(0.0, 1), at(0.125, 1, BASE_ONLY))) == ["", "baseline: failover"]
    assert told(walk(PLAIN, at(0.0, 9), at(0.125, 9, SPEC_ONLY))) == [
        "baseline: high",
        "speculative: failover",
    ]


def test_high_load_stays_where_it_is_while_the_baseline_cannot_serve() -> None:
    steps = [at(0.0, 20, SPEC_ONLY), at(5.0, 20, SPEC_ONLY), at(6.0, 20)]
    assert told(walk(PLAIN, *steps)) == ["", "", "baseline: recovered"]


def test_coming_back_to_a_recovered_engine_waits_for_the_dwell() -> None:
    steps = [at(0.0, 1, BASE_ONLY), at(1.0, 1), at(9.875, 1), at(10.0, 1)]
    assert told(walk(PLAIN, *steps)) == ["baseline: failover", "", "", "speculative: recovered"]


def test_coming_back_does_not_wait_when_the_stand_in_fails_too() -> None:
    steps = [at(0.0, 1, BASE_ONLY), at(1.0, 1, SPEC_ONLY)]
    assert told(walk(PLAIN, *steps)) == ["baseline: failover", "speculative: recovered"]


def test_a_load_that_asks_for_the_stand_in_ends_the_detour() -> None:
    steps = [at(0.0, 1, BASE_ONLY), at(1.0, 9), at(12.0, 1), at(12.125, 9)]
    assert told(walk(PLAIN, *steps)) == ["baseline: failover", "", "speculative: low", "baseline: high"]


def test_with_no_engine_left_nothing_moves_but_n_is_still_followed() -> None:
    state = PolicyState(active=BASELINE, regime=BASELINE, detour=None)
    after, switch = SMOOTH.step(state, at(5.0, 1, NONE))
    assert switch is None
    assert after == PolicyState(BASELINE, SPECULATIVE, None, 0.0, 1, 5.0, None)


def test_a_pin_holds_against_the_load_and_its_end_gives_way_to_it_at_once() -> None:
    steps = [at(0.0, 1, pin=BASELINE), at(20.0, 1, pin=BASELINE), at(20.125, 1)]
    assert told(walk(PLAIN, *steps)) == ["baseline: pin", "", "speculative: unpin"]
    steps = [at(0.0, 1, pin=SPECULATIVE), at(1.0, 99, pin=SPECULATIVE), at(2.0, 99)]
    assert told(walk(PLAIN, *steps)) == ["", "", "baseline: unpin"]


def test_a_pin_to_where_traffic_goes_anyway_leaves_no_trace() -> None:
    steps = [at(0.0, 1, pin=SPECULATIVE), at(1.0, 1), at(2.0, 8)]
    assert told(walk(PLAIN, *steps)) == ["", "", "baseline: high"]


def test_a_pinned_engine_that_cannot_serve_is_left_and_taken_again_when_it_can() -> None:
    steps = [at(0.0, 1, pin=BASELINE), at(1.0, 1, SPEC_ONLY, pin=BASELINE), at(2.0, 1, pin=BASELINE)]
    assert told(walk(PLAIN, *steps)) == ["baseline: pin", "speculative: failover", "baseline: pin"]


def test_a_pin_taken_away_while_the_engine_underneath_is_dead_becomes_a_failover() -> None:
    steps = [at(0.0, 1, pin=BASELINE), at(20.0, 1, BASE_ONLY), at(21.0, 1)]
    assert told(walk(PLAIN, *steps)) == ["baseline: pin", "", "speculative: recovered"]


@pytest.mark.parametrize("path", Path)
def test_a_fixed_policy_stays_whatever_n_is(path: Path) -> None:
    policy = FixedPolicy(path, "pinned")
    assert (policy.kind, policy.first_path, policy.dwell) == ("pinned", path, 0.0)
    assert told(walk(policy, at(0.0, 0), at(100.0, 500), at(200.0, 0))) == ["", "", ""]


def test_a_fixed_policy_leaves_a_dead_engine_and_comes_back_after_the_dwell() -> None:
    policy = FixedPolicy(SPECULATIVE, "pinned", dwell=5.0)
    steps = [at(100.0, 1, BASE_ONLY), at(104.875, 1), at(105.0, 1)]
    assert told(walk(policy, *steps)) == ["baseline: failover", "", "speculative: recovered"]


def test_a_fixed_policy_that_takes_over_moves_traffic_to_its_path() -> None:
    state = PolicyState(active=BASELINE, regime=BASELINE, switched_at=0.0)
    assert told(walk(FixedPolicy(SPECULATIVE, "pinned"), at(1.0, 50), state=state)) == ["speculative: pin"]


def test_a_fixed_policy_follows_n_without_smoothing() -> None:
    state, _ = FixedPolicy(BASELINE, "pinned").step(PolicyState(), at(1.0, 50))
    assert (state.smoothed_n, state.last_n, state.seen_at) == (50.0, 50, 1.0)


@pytest.mark.parametrize(
    ("state", "seen", "smoothing", "smoothed"),
    [
        (PolicyState(), at(5.0, 9), 2.0, 0.0),
        (PolicyState(), at(5.0, 9), 0.0, 9.0),
        (PolicyState(smoothed_n=4.0, last_n=4, seen_at=0.0), at(50.0, 9), 2.0, 4.0),
        (PolicyState(smoothed_n=0.0, last_n=8, seen_at=0.0), at(2.0, 0), 2.0, 8 - 8 * math.exp(-1)),
        (PolicyState(smoothed_n=8.0, last_n=0, seen_at=0.0), at(2.0, 9), 2.0, 8 * math.exp(-1)),
        (PolicyState(smoothed_n=8.0, last_n=0, seen_at=5.0), at(5.0, 9), 2.0, 8.0),
        (PolicyState(smoothed_n=8.0, last_n=0, seen_at=5.0), at(4.0, 9), 2.0, 8.0),
        (PolicyState(smoothed_n=8.0, last_n=0, seen_at=0.0), at(1e9, 9), 2.0, 0.0),
    ],
)
def test_smoothing_takes_the_n_that_held_since_the_last_snapshot(
    state: PolicyState, seen: Snapshot, smoothing: float, smoothed: float
) -> None:
    after = observe_n(state, seen, smoothing)
    assert (after.smoothed_n, after.last_n, after.seen_at) == (smoothed, seen.n, seen.now)
