"""Decisions about a pair of engines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from router.core.classes import Wish
from router.core.events import Decision
from router.core.failure import Effect
from router.core.health import BreakerRules, EngineHealth, HealthRules, Probe
from router.core.identity import Fault, Problem, Verdict
from router.core.ledger import Lease, Ledger
from router.core.load import EngineLoad
from router.core.pair import SWITCHES_KEPT, Pair, Pin
from router.core.policy import FixedPolicy, Policy, PolicyState, Snapshot, Switch, ThresholdPolicy
from router.core.reconcile import Reconciler
from router.core.words import DecisionReason, Outcome, Path, Placement, SwitchReason
from tests.support import FakeClock, RecordingObserver
from tests.support.wishes import named

SPECULATIVE, BASELINE = Path
BREAKER = BreakerRules(failure_threshold=3, success_threshold=2, open_for=10.0)
PROBES = HealthRules(failure_threshold=3, success_threshold=2)
THRESHOLD = ThresholdPolicy(high=8, low=3, dwell=10.0, smoothing=0.0)


@dataclass
class Bench:
    """A pair on a clock and a load under the test's control."""

    policy: Policy = THRESHOLD
    placement: Placement = Placement.SHARED
    paths: Iterable[Path] = tuple(Path)
    clock: FakeClock = field(default_factory=FakeClock)
    observer: RecordingObserver = field(default_factory=RecordingObserver)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.clock)
        self.leases: list[Lease] = []
        engines = {path: EngineHealth(BREAKER, PROBES) for path in self.paths}
        self.pair = Pair(
            "default", self.placement, engines, self.policy, self.ledger, self.clock, self.observer
        )

    def load(self, n: int) -> None:
        """Make N what is asked for."""
        while len(self.leases) < n:
            self.leases.append(self.ledger.open())
        while len(self.leases) > n:
            self.leases.pop().close(Outcome.OK)

    def open_breaker(self, path: Path) -> None:
        for _ in range(BREAKER.failure_threshold):
            self.pair.engines[path].record_result(Effect.FAILURE, self.clock())

    def probe(self, path: Path, found: Probe, times: int = 1) -> None:
        for _ in range(times):
            self.pair.engines[path].record_ready(found, self.clock())


def decided(path: Path, reason: str, trial: bool = False) -> Decision:
    return Decision(path, DecisionReason(reason), trial)


def single(path: Path) -> Bench:
    return Bench(FixedPolicy(path, "single"), Placement.SINGLE, (path,))


def test_a_new_pair_serves_its_policy_s_first_path() -> None:
    bench = Bench()
    pair = bench.pair
    assert (pair.name, pair.placement) == ("default", Placement.SHARED)
    assert (pair.active_path, pair.active_since, pair.began, list(pair.switches)) == (
        SPECULATIVE,
        1000.0,
        1000.0,
        [],
    )
    assert pair.decide() == decided(SPECULATIVE, "policy")
    assert bench.observer.decisions == [decided(SPECULATIVE, "policy")]


def test_a_pair_whose_policy_begins_with_the_baseline_begins_there_without_a_switch() -> None:
    bench = Bench(FixedPolicy(BASELINE, "pinned"))
    assert bench.pair.active_path is BASELINE
    assert bench.pair.decide() == decided(BASELINE, "pinned")
    assert list(bench.pair.switches) == []


def test_high_load_moves_new_requests_and_the_switch_is_kept_and_told() -> None:
    bench = Bench()
    bench.load(8)
    bench.clock.advance(5.0)
    assert bench.pair.decide() == decided(BASELINE, "policy")
    (switch,) = bench.pair.switches
    assert (switch.at, switch.origin, switch.target, switch.n) == (1005.0, SPECULATIVE, BASELINE, 8)
    assert (switch.reason, bench.observer.switches) == (SwitchReason.HIGH, [switch])
    assert (bench.pair.active_path, bench.pair.active_since) == (BASELINE, 1005.0)


def test_a_timer_alone_brings_traffic_back() -> None:
    bench = Bench()
    bench.load(8)
    assert bench.pair.evaluate() is not None
    bench.load(1)
    bench.clock.advance(9.875)
    assert bench.pair.evaluate() is None
    bench.clock.advance(0.125)
    switch = bench.pair.evaluate()
    assert switch is not None
    assert (switch.target, switch.reason) == (SPECULATIVE, SwitchReason.LOW)


def test_only_the_latest_switches_are_kept() -> None:
    bench = Bench(ThresholdPolicy(high=2, low=1, dwell=0.0, smoothing=0.0))
    for turn in range(SWITCHES_KEPT + 1):
        bench.load(2 if turn % 2 == 0 else 0)
        bench.clock.advance(1.0)
        bench.pair.evaluate()
    assert len(bench.observer.switches) == SWITCHES_KEPT + 1
    assert list(bench.pair.switches) == bench.observer.switches[1:]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [(THRESHOLD, "policy"), (FixedPolicy(SPECULATIVE, "pinned"), "pinned")],
    ids=["threshold", "pinned"],
)
def test_the_reason_tells_a_policy_from_an_operator(policy: Policy, reason: str) -> None:
    assert Bench(policy).pair.decide() == decided(SPECULATIVE, reason)


def test_a_pin_moves_traffic_until_its_time_is_up() -> None:
    bench = Bench()
    bench.pair.pin = Pin(BASELINE, "maintenance", until=1060.0)
    assert bench.pair.decide() == decided(BASELINE, "pinned")
    bench.clock.advance(59.875)
    assert bench.pair.decide() == decided(BASELINE, "pinned")
    bench.clock.advance(0.125)
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")
    assert bench.pair.pin is None
    assert [switch.reason for switch in bench.pair.switches] == [SwitchReason.PIN, SwitchReason.UNPIN]


def test_a_pin_without_a_limit_stays_until_it_is_taken_away() -> None:
    bench = Bench()
    bench.pair.pin = Pin(BASELINE, "maintenance", until=None)
    bench.clock.advance(1e6)
    assert bench.pair.decide() == decided(BASELINE, "pinned")
    bench.pair.pin = None
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")


@pytest.mark.parametrize("asked", Path)
def test_a_request_gets_the_path_it_asked_for_and_moves_nobody_else(asked: Path) -> None:
    bench = Bench()
    assert bench.pair.decide(named(asked)) == decided(asked, "header")
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")


def test_a_request_that_asked_for_a_dead_engine_is_served_by_the_other() -> None:
    bench = Bench()
    bench.open_breaker(BASELINE)
    assert bench.pair.decide(named(BASELINE)) == decided(SPECULATIVE, "policy")


def test_a_dead_engine_gets_nothing_and_the_other_everything() -> None:
    bench = Bench()
    bench.open_breaker(SPECULATIVE)
    assert bench.pair.decide() == decided(BASELINE, "failover")
    assert bench.pair.active_path is BASELINE
    bench.load(8)
    assert bench.pair.decide() == decided(BASELINE, "policy"), "where the load belongs by now"


def test_after_a_recovery_traffic_waits_for_the_dwell() -> None:
    bench = Bench()
    bench.probe(SPECULATIVE, Probe.NOT_READY)
    assert bench.pair.decide() == decided(BASELINE, "failover")
    bench.probe(SPECULATIVE, Probe.OK, 2)
    bench.clock.advance(9.875)
    assert bench.pair.decide() == decided(BASELINE, "failover")
    bench.clock.advance(0.125)
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")


def test_a_half_open_engine_is_tried_with_one_request_at_a_time() -> None:
    bench = Bench()
    bench.open_breaker(SPECULATIVE)
    bench.clock.advance(10.0)
    trial = bench.pair.decide()
    assert trial == decided(SPECULATIVE, "probe", trial=True)
    assert bench.pair.decide() == decided(BASELINE, "failover"), "while the trial runs"
    bench.pair.report(trial, Effect.SUCCESS)
    second = bench.pair.decide()
    assert second == decided(SPECULATIVE, "probe", trial=True)
    bench.pair.report(second, Effect.SUCCESS)
    # Ten seconds of the dwell have not passed: the failover was noticed by the first decision only now.
    assert bench.pair.decide() == decided(BASELINE, "failover")
    bench.clock.advance(10.0)
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")


@pytest.mark.parametrize(("effect", "tried_again"), [(Effect.FAILURE, False), (Effect.NEUTRAL, True)])
def test_a_trial_that_fails_ends_the_trying_and_one_that_proves_nothing_is_repeated(
    effect: Effect, tried_again: bool
) -> None:
    bench = Bench()
    bench.open_breaker(SPECULATIVE)
    bench.clock.advance(10.0)
    trial = bench.pair.decide()
    assert trial is not None
    bench.pair.report(trial, effect)
    again = bench.pair.decide()
    assert again == (
        decided(SPECULATIVE, "probe", trial=True) if tried_again else decided(BASELINE, "failover")
    )


def test_an_engine_that_the_load_does_not_ask_for_is_not_tried() -> None:
    bench = Bench()
    bench.open_breaker(BASELINE)
    bench.clock.advance(10.0)
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")
    assert bench.pair.decide(named(BASELINE)) == decided(BASELINE, "probe", trial=True), (
        "unless a request does"
    )


def test_a_pinned_engine_is_tried_whatever_the_load_asks_for() -> None:
    bench = Bench()
    bench.pair.pin = Pin(BASELINE, "compare", until=None)
    bench.open_breaker(BASELINE)
    bench.clock.advance(10.0)
    assert bench.pair.decide() == decided(BASELINE, "probe", trial=True)
    assert bench.pair.decide() == decided(SPECULATIVE, "failover")


def test_two_dead_engines_serve_nobody_and_nobody_is_told_of_a_decision() -> None:
    bench = Bench()
    bench.open_breaker(SPECULATIVE)
    bench.open_breaker(BASELINE)
    assert bench.pair.decide() is None
    assert bench.pair.decide(named(BASELINE)) is None
    assert bench.observer.decisions == []


@pytest.mark.parametrize("asked", [None, *Path])
@pytest.mark.parametrize("wanted_is", ["refusing", "broken"])
def test_with_both_dead_whichever_may_be_tried_is_tried(asked: Path | None, wanted_is: str) -> None:
    bench = Bench()
    bench.open_breaker(SPECULATIVE) if wanted_is == "broken" else bench.probe(SPECULATIVE, Probe.REFUSED, 3)
    assert bench.pair.decide() == decided(BASELINE, "failover")
    bench.open_breaker(BASELINE)
    bench.clock.advance(9.875)
    if wanted_is == "broken":
        bench.pair.engines[SPECULATIVE].breaker.begin_trial()  # one is under way, and hangs
    assert bench.pair.decide(named(asked)) is None
    bench.clock.advance(0.125)
    assert bench.pair.decide(named(asked)) == decided(BASELINE, "probe", trial=True)
    assert bench.pair.decide(named(asked)) is None, "one at a time"


def test_with_both_half_open_the_wanted_one_is_tried_first_and_then_the_other() -> None:
    bench = Bench()
    bench.open_breaker(SPECULATIVE)
    bench.open_breaker(BASELINE)
    bench.clock.advance(10.0)
    tried = [bench.pair.decide() for _ in range(3)]
    assert tried == [
        decided(SPECULATIVE, "probe", trial=True),
        decided(BASELINE, "probe", trial=True),
        None,
    ]


def test_a_doubt_takes_an_engine_s_traffic_but_never_the_last_engine() -> None:
    bench = Bench()
    bench.probe(SPECULATIVE, Probe.FAILED, 3)
    assert bench.pair.decide() == decided(BASELINE, "failover")
    assert bench.pair.decide(named(SPECULATIVE)) == decided(BASELINE, "failover"), "not even on request"
    bench.open_breaker(BASELINE)
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")
    bench = Bench()
    for path in Path:
        bench.probe(path, Probe.FAILED, 3)
    assert bench.pair.decide() == decided(SPECULATIVE, "policy"), "two doubtful engines are as two good ones"


@pytest.mark.parametrize("path", Path)
def test_a_pair_with_one_engine_always_answers_with_it(path: Path) -> None:
    bench = single(path)
    bench.load(500)
    assert bench.pair.decide() == decided(path, "single")
    assert bench.pair.decide(named(path.other)) == decided(path, "single")
    bench.probe(path, Probe.FAILED, 3)
    assert bench.pair.decide() == decided(path, "single")
    assert list(bench.pair.switches) == []


@pytest.mark.parametrize("path", Path)
def test_a_pair_with_one_dead_engine_tries_it_and_has_no_other(path: Path) -> None:
    bench = single(path)
    bench.open_breaker(path)
    assert bench.pair.decide() is None
    bench.clock.advance(10.0)
    trial = bench.pair.decide()
    assert trial == decided(path, "probe", trial=True)
    assert bench.pair.decide() is None
    assert (bench.pair.can_retry(path), bench.pair.decide_retry(path)) == (False, None)
    bench.pair.report(trial, Effect.SUCCESS)
    assert bench.pair.decide() == decided(path, "probe", trial=True)


def test_a_policy_that_would_start_elsewhere_starts_with_the_only_engine() -> None:
    bench = Bench(THRESHOLD, Placement.SINGLE, (BASELINE,))
    assert bench.pair.active_path is BASELINE
    bench.load(1)
    assert bench.pair.evaluate() is None
    assert bench.pair.active_path is BASELINE


@pytest.mark.parametrize("failed", Path)
def test_a_second_try_goes_to_the_other_engine(failed: Path) -> None:
    bench = Bench()
    assert bench.pair.decide_retry(failed) == decided(failed.other, "retry")
    assert bench.observer.decisions == [decided(failed.other, "retry")]


def test_a_second_try_takes_a_doubtful_engine_but_no_dead_one() -> None:
    bench = Bench()
    bench.probe(BASELINE, Probe.FAILED, 3)
    assert bench.pair.decide_retry(SPECULATIVE) == decided(BASELINE, "retry")
    assert bench.pair.can_retry(SPECULATIVE) is True
    bench.open_breaker(BASELINE)
    assert bench.pair.can_retry(SPECULATIVE) is False
    assert bench.pair.decide_retry(SPECULATIVE) is None
    assert bench.observer.decisions == [decided(BASELINE, "retry")]


def test_a_second_try_is_the_trial_of_a_half_open_engine() -> None:
    bench = Bench()
    bench.open_breaker(BASELINE)
    bench.clock.advance(10.0)
    assert bench.pair.can_retry(SPECULATIVE) is True
    trial = bench.pair.decide_retry(SPECULATIVE)
    assert trial == decided(BASELINE, "retry", trial=True)
    assert bench.pair.decide_retry(SPECULATIVE) is None, "one trial at a time"
    bench.pair.report(trial, Effect.SUCCESS)
    assert bench.pair.decide_retry(SPECULATIVE) == trial


def test_a_report_counts_against_the_path_of_its_decision() -> None:
    bench = Bench()
    for _ in range(BREAKER.failure_threshold):
        decision = bench.pair.decide(named(BASELINE))
        assert decision == decided(BASELINE, "header")
        bench.pair.report(decision, Effect.FAILURE)
    assert bench.pair.engines[BASELINE].breaker.opened_total == 1
    assert bench.pair.engines[SPECULATIVE].breaker.opened_total == 0


def test_a_late_report_of_an_ordinary_request_does_not_end_a_trial() -> None:
    bench = Bench()
    ordinary = bench.pair.decide()
    assert ordinary is not None
    bench.open_breaker(SPECULATIVE)
    bench.clock.advance(10.0)
    assert bench.pair.decide() == decided(SPECULATIVE, "probe", trial=True)
    bench.pair.report(ordinary, Effect.NEUTRAL)
    assert bench.pair.decide() == decided(BASELINE, "failover")


def test_the_router_serves_once_an_engine_was_seen_and_while_one_can_be_used() -> None:
    bench = Bench()
    assert bench.pair.serving() is False, "no engine was seen yet"
    bench.probe(BASELINE, Probe.OK)
    assert bench.pair.serving() is True
    bench.probe(BASELINE, Probe.NOT_READY)
    assert bench.pair.serving() is False, "the usable one was never seen"
    bench.probe(SPECULATIVE, Probe.OK)
    assert bench.pair.serving() is True
    bench.open_breaker(SPECULATIVE)
    assert bench.pair.serving() is True, "doubt does not take the last engine"
    bench.open_breaker(BASELINE)
    assert bench.pair.serving() is False


def test_the_wait_until_an_open_breaker_lets_a_trial_through() -> None:
    bench = Bench()
    assert bench.pair.retry_in() == 0.0
    bench.open_breaker(BASELINE)
    bench.clock.advance(4.0)
    assert bench.pair.retry_in() == 6.0, "an engine whose breaker is closed opens nothing"
    bench.open_breaker(SPECULATIVE)
    assert bench.pair.retry_in() == 6.0
    bench.clock.advance(6.0)
    assert bench.pair.retry_in() == 0.0
    bench.open_breaker(BASELINE)
    assert bench.pair.retry_in() == 4.0


def only(path: Path, reason: DecisionReason = DecisionReason.CLASS) -> Wish:
    return Wish(path, reason, only=True, field="min_p")


@pytest.mark.parametrize("path", Path)
@pytest.mark.parametrize("reason", [DecisionReason.CLASS, DecisionReason.AFFINITY])
def test_what_only_one_path_can_serve_goes_there_whatever_pin_and_policy_say(
    path: Path, reason: DecisionReason
) -> None:
    bench = Bench()
    bench.pair.pin = Pin(path.other, "compare", until=None)
    assert bench.pair.decide(only(path, reason)) == decided(path, reason)
    bench.probe(path, Probe.FAILED, 3)
    assert bench.pair.decide(only(path, reason)) == decided(path, reason), "a doubtful engine is the only one"
    assert bench.pair.decide() == decided(path.other, "pinned")


def test_what_only_a_dead_engine_can_serve_is_served_by_none() -> None:
    bench = Bench()
    bench.open_breaker(BASELINE)
    assert bench.pair.decide(only(BASELINE)) is None
    bench.clock.advance(10.0)
    assert bench.pair.decide(only(BASELINE)) == decided(BASELINE, "class", trial=True)
    assert bench.pair.decide(only(BASELINE)) is None, "one trial at a time"
    assert bench.pair.decide() == decided(SPECULATIVE, "policy")


@pytest.mark.parametrize("path", Path)
def test_a_pair_with_one_engine_serves_every_class(path: Path) -> None:
    assert single(path).pair.decide(only(path.other)) == decided(path, "single")


@pytest.mark.parametrize("wrong", Path)
def test_an_engine_that_is_not_what_its_path_says_gets_nothing(wrong: Path) -> None:
    bench = Bench()
    for path in Path:
        bench.probe(path, Probe.OK)
    problem = Problem(Fault.SAME_KIND, "both engines …")
    bench.pair.rewire(Verdict((problem,), frozenset({wrong})))
    assert bench.pair.problems == (problem,)
    assert bench.pair.active_path is wrong.other
    assert bench.pair.decide(named(wrong)) is not None
    assert {decision.path for decision in bench.observer.decisions} == {wrong.other}
    assert bench.pair.decide(only(wrong)) is None
    assert bench.pair.can_retry(wrong.other) is False
    assert (bench.pair.serving(), bench.pair.engines[wrong].up(bench.clock())) == (True, False)
    bench.open_breaker(wrong)
    bench.clock.advance(10.0)
    assert bench.pair.engines[wrong].promising(bench.clock()) is False
    assert bench.pair.decide(only(wrong)) is None, "nor as a trial"
    bench.pair.rewire(Verdict())
    assert bench.pair.problems == ()
    assert bench.pair.decide(only(wrong)) == decided(wrong, "class", trial=True)


def test_two_wrong_engines_serve_nobody() -> None:
    bench = Bench()
    for path in Path:
        bench.probe(path, Probe.OK)
    bench.pair.rewire(Verdict((), frozenset(Path)))
    assert bench.pair.serving() is False
    assert bench.pair.decide() is None


def test_what_loads_the_engines_beyond_our_leases_is_part_of_n_and_explained() -> None:
    bench = Bench()
    reconcilers = {path: Reconciler(bench.clock) for path in Path}
    bench.pair.reconcilers = reconcilers
    bench.pair.max_excess = 100
    bench.load(5)
    for _ in range(2):
        bench.clock.advance(1.0)
        reconcilers[SPECULATIVE].read(EngineLoad(bench.clock(), running=2, waiting=0))
        reconcilers[BASELINE].read(EngineLoad(bench.clock(), running=1, waiting=0))
    assert bench.pair.excess == 3
    assert bench.pair.decide() == decided(BASELINE, "policy")
    (switch,) = bench.pair.switches
    assert (switch.n, switch.excess, switch.reason) == (8, 3, SwitchReason.HIGH)
    bench.pair.max_excess = 2
    assert bench.pair.excess == 2
    bench.clock.advance(60.0)
    assert bench.pair.excess == 0


def test_the_times_of_both_paths_add_up() -> None:
    bench = Bench()
    bench.clock.advance(3.0)
    bench.load(8)
    bench.pair.evaluate()
    bench.clock.advance(12.0)
    bench.load(0)
    bench.pair.evaluate()
    bench.clock.advance(5.0)
    assert bench.pair.now() == 1020.0
    assert bench.pair.active_seconds(SPECULATIVE) == 8.0
    assert bench.pair.active_seconds(BASELINE) == 12.0


def test_a_switch_is_told_with_what_it_was_made_from() -> None:
    bench = Bench()
    told: list[tuple[PolicyState, Snapshot, Switch]] = []
    bench.pair.on_record = lambda before, seen, switch: told.append((before, seen, switch))
    bench.load(8)
    bench.pair.evaluate()
    ((before, seen, switch),) = told
    assert (before.active, seen.n, switch.target) == (SPECULATIVE, 8, BASELINE)
    assert THRESHOLD.step(before, seen)[1] == switch


def test_an_operator_s_drain_keeps_an_engine_out_even_of_trials() -> None:
    bench = Bench()
    bench.pair.engines[SPECULATIVE].drained = True
    assert bench.pair.decide() == decided(BASELINE, "failover")
    bench.open_breaker(SPECULATIVE)
    bench.clock.advance(10.0)
    assert bench.pair.decide() == decided(BASELINE, "failover")
    assert not bench.pair.engines[SPECULATIVE].promising(bench.clock())
