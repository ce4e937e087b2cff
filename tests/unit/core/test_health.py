"""The breaker's table, and what probes and traffic make of an engine's standing."""

from __future__ import annotations

import pytest

from router.core.failure import Effect
from router.core.health import Breaker, BreakerRules, EngineHealth, HealthRules, Probe, Standing
from router.core.words import BreakerState

RULES = BreakerRules(failure_threshold=3, success_threshold=2, open_for=10.0)
PROBES = HealthRules(failure_threshold=3, success_threshold=2)
EFFECTS = {"F": Effect.FAILURE, "S": Effect.SUCCESS, "n": Effect.NEUTRAL}


def fed(results: str, now: float = 0.0, breaker: Breaker | None = None) -> Breaker:
    """A breaker after these results, all at `now`: F failure, S success, n neutral."""
    breaker = breaker or Breaker(RULES)
    for result in results:
        breaker.record(EFFECTS[result], now)
    return breaker


@pytest.mark.parametrize(
    ("results", "state"),
    [
        ("", "closed"),
        ("FF", "closed"),
        ("FFF", "open"),
        ("FFSF", "closed"),
        ("FFSFFF", "open"),
        ("FFnF", "open"),
        ("nnnnnn", "closed"),
        ("SSSFF", "closed"),
        ("FFFS", "open"),
        ("FFFSSS", "open"),
    ],
)
def test_failures_in_a_row_open_a_breaker(results: str, state: str) -> None:
    breaker = fed(results)
    assert breaker.state(0.0).value == state
    assert breaker.opened_total == int(state == "open")


def test_an_open_breaker_becomes_half_open_by_time_alone() -> None:
    breaker = fed("FFF", now=100.0)
    seen = [(breaker.state(now), breaker.reopens_in(now)) for now in (100.0, 109.875, 110.0, 500.0)]
    assert seen == [
        (BreakerState.OPEN, 10.0),
        (BreakerState.OPEN, 0.125),
        (BreakerState.HALF_OPEN, 0.0),
        (BreakerState.HALF_OPEN, 0.0),
    ]


def test_a_closed_breaker_has_nothing_to_wait_for_and_nothing_to_try() -> None:
    breaker = fed("FF")
    assert (breaker.reopens_in(5.0), breaker.trial_free(5.0)) == (0.0, False)


@pytest.mark.parametrize(
    ("results", "state", "opened"),
    [
        ("S", "half_open", 1),
        ("SS", "closed", 1),
        ("nn", "half_open", 1),
        ("SnS", "closed", 1),
        ("F", "open", 2),
        ("SF", "open", 2),
        ("nF", "open", 2),
    ],
)
def test_what_results_make_of_a_half_open_breaker(results: str, state: str, opened: int) -> None:
    breaker = fed(results, 10.0, fed("FFF"))
    assert (breaker.state(10.0).value, breaker.opened_total) == (state, opened)


def test_a_breaker_that_opens_again_waits_from_then_on_and_counts_successes_anew() -> None:
    breaker = fed("SF", 10.0, fed("FFF"))
    assert (breaker.state(19.875), breaker.state(20.0)) == (BreakerState.OPEN, BreakerState.HALF_OPEN)
    assert fed("S", 20.0, breaker).state(20.0) is BreakerState.HALF_OPEN
    assert fed("S", 20.0, breaker).state(20.0) is BreakerState.CLOSED


def test_a_breaker_that_closed_needs_the_full_count_of_failures_again() -> None:
    breaker = fed("SSFF", 10.0, fed("FFFFF"))
    assert breaker.state(10.0) is BreakerState.CLOSED
    assert fed("F", 10.0, breaker).state(10.0) is BreakerState.OPEN


def test_a_late_failure_does_not_prolong_an_open_breaker() -> None:
    breaker = fed("F", 9.0, fed("FFF"))
    assert (breaker.state(10.0), breaker.opened_total) == (BreakerState.HALF_OPEN, 1)


def test_a_half_open_breaker_lets_one_trial_through_at_a_time() -> None:
    breaker = fed("FFF")
    assert breaker.trial_free(9.0) is False
    assert breaker.trial_free(10.0) is True
    breaker.begin_trial()
    assert breaker.trial_free(10.0) is False
    breaker.end_trial()
    assert breaker.trial_free(10.0) is True


def test_a_trial_still_under_way_blocks_the_next_even_after_a_new_opening() -> None:
    breaker = fed("FFF")
    breaker.begin_trial()
    fed("F", 10.0, breaker)
    assert breaker.state(20.0) is BreakerState.HALF_OPEN
    assert breaker.trial_free(20.0) is False
    breaker.end_trial()
    assert breaker.trial_free(20.0) is True


def test_an_end_without_a_beginning_does_not_make_room_for_two() -> None:
    breaker = fed("FFF")
    breaker.end_trial()
    breaker.begin_trial()
    assert breaker.trial_free(10.0) is False


def health() -> EngineHealth:
    return EngineHealth(RULES, PROBES)


PROBE = {"o": Probe.OK, "n": Probe.NOT_READY, "f": Probe.FAILED, "r": Probe.REFUSED}


@pytest.mark.parametrize(
    ("found", "standing"),
    [
        ("", "good"),
        ("o", "good"),
        ("ff", "good"),
        ("fff", "doubtful"),
        ("ffoff", "good"),
        ("fffo", "doubtful"),
        ("fffoo", "good"),
        ("fffofo", "doubtful"),
        ("n", "doubtful"),
        ("no", "doubtful"),
        ("noo", "good"),
        ("rr", "good"),
        ("rrf", "doubtful"),
        ("rrr", "dead"),
        ("rrrr", "dead"),
        ("rrrf", "doubtful"),
        ("frr", "doubtful"),
        ("frrr", "dead"),
        ("rrro", "doubtful"),
        ("rrroo", "good"),
        ("rrrorr", "doubtful"),
    ],
)
def test_readiness_probes_in_a_row(found: str, standing: str) -> None:
    engine = health()
    for letter in found:
        engine.record_ready(PROBE[letter], began=0.0)
    assert engine.standing(0.0).value == standing


@pytest.mark.parametrize(
    ("found", "standing"), [("ff", "good"), ("fff", "doubtful"), ("rrrr", "doubtful"), ("fffoo", "good")]
)
def test_deep_probes_cast_doubt_but_never_declare_dead(found: str, standing: str) -> None:
    engine = health()
    for letter in found:
        engine.record_deep(PROBE[letter], began=0.0)
    assert engine.standing(0.0).value == standing


def test_the_two_sorts_of_probes_do_not_vouch_for_each_other() -> None:
    engine = health()
    for _ in range(3):
        engine.record_deep(Probe.FAILED, began=0.0)
        engine.record_ready(Probe.OK, began=0.0)
    assert engine.standing(0.0) is Standing.DOUBTFUL


def test_a_process_that_is_gone_takes_the_doubt_about_its_scheduler_with_it() -> None:
    engine = health()
    for _ in range(3):
        engine.record_deep(Probe.FAILED, began=0.0)
    for letter in "rrroo":
        engine.record_ready(PROBE[letter], began=0.0)
    assert engine.standing(0.0) is Standing.GOOD


@pytest.mark.parametrize(
    ("flowed_at", "standing"), [(None, "doubtful"), (2.875, "doubtful"), (3.0, "good"), (6.0, "good")]
)
def test_a_probe_that_fails_while_bytes_flow_proves_nothing(flowed_at: float | None, standing: str) -> None:
    engine = health()
    if flowed_at is not None:
        engine.record_flow(flowed_at)
    for _ in range(3):
        engine.record_deep(Probe.FAILED, began=5.0)
    assert engine.standing(7.0).value == standing


@pytest.mark.parametrize(("found", "standing"), [("n", "doubtful"), ("rrr", "dead")])
def test_what_an_engine_or_its_absence_says_counts_though_bytes_flow(found: str, standing: str) -> None:
    engine = health()
    engine.record_flow(9.0)
    for letter in found:
        engine.record_ready(PROBE[letter], began=5.0)
    assert engine.standing(9.0).value == standing


def test_an_engine_is_dead_from_the_opening_of_its_breaker_until_it_closes() -> None:
    engine = health()
    for _ in range(3):
        engine.record_result(Effect.FAILURE, 0.0)
    assert [engine.standing(now) for now in (0.0, 10.0)] == [Standing.DEAD, Standing.DEAD]
    engine.record_result(Effect.SUCCESS, 10.0)
    assert engine.standing(10.0) is Standing.DEAD
    engine.record_result(Effect.SUCCESS, 10.0)
    assert engine.standing(10.0) is Standing.GOOD


def test_probes_do_not_close_a_breaker() -> None:
    engine = health()
    for _ in range(3):
        engine.record_result(Effect.FAILURE, 0.0)
    for _ in range(5):
        engine.record_ready(Probe.OK, began=1.0)
        engine.record_deep(Probe.OK, began=1.0)
    assert engine.standing(1.0) is Standing.DEAD


def test_an_answered_request_is_flow() -> None:
    engine = health()
    engine.record_result(Effect.SUCCESS, 6.0)
    for _ in range(3):
        engine.record_deep(Probe.FAILED, began=5.0)
    assert engine.standing(6.0) is Standing.GOOD


@pytest.mark.parametrize("effect", [Effect.FAILURE, Effect.NEUTRAL])
def test_a_request_that_was_not_answered_is_no_flow(effect: Effect) -> None:
    engine = health()
    engine.record_result(effect, 6.0)
    for _ in range(3):
        engine.record_deep(Probe.FAILED, began=5.0)
    assert (engine.standing(6.0), engine.seen_up) == (Standing.DOUBTFUL, False)


def test_an_engine_is_up_once_it_was_seen_alive_and_while_nothing_speaks_against_it() -> None:
    engine = health()
    assert (engine.seen_up, engine.up(0.0)) == (False, False)
    engine.record_ready(Probe.FAILED, began=0.0)
    assert engine.up(0.0) is False
    engine.record_ready(Probe.OK, began=1.0)
    assert (engine.seen_up, engine.up(1.0)) == (True, True)
    engine.record_ready(Probe.NOT_READY, began=2.0)
    assert (engine.seen_up, engine.up(2.0)) == (True, False)


def test_bytes_show_that_an_engine_is_alive() -> None:
    engine = health()
    engine.record_flow(1.0)
    assert engine.up(1.0) is True


def test_other_rules_judge_what_was_counted_before() -> None:
    engine = health()
    engine.record_result(Effect.FAILURE, 0.0)
    engine.record_result(Effect.FAILURE, 0.0)
    engine.record_ready(Probe.FAILED, began=0.0)
    engine.record_deep(Probe.FAILED, began=0.0)
    engine.set_rules(BreakerRules(failure_threshold=3, success_threshold=1, open_for=5.0), HealthRules(2, 1))
    assert engine.standing(0.0) is Standing.GOOD
    engine.record_deep(Probe.FAILED, began=0.0)
    assert engine.standing(0.0) is Standing.DOUBTFUL
    engine.record_deep(Probe.OK, began=0.0)
    engine.record_ready(Probe.FAILED, began=0.0)
    assert engine.standing(0.0) is Standing.DOUBTFUL
    engine.record_ready(Probe.OK, began=0.0)
    assert engine.standing(0.0) is Standing.GOOD
    engine.record_result(Effect.FAILURE, 0.0)
    assert engine.breaker.reopens_in(0.0) == 5.0
    engine.record_result(Effect.SUCCESS, 5.0)
    assert engine.breaker.state(5.0) is BreakerState.CLOSED
