"""A pair of engines under anything that can happen to it, judged by rules written down a second time.

The breaker is judged by the history of results, not by a second breaker: it may open only on a full row of
failures or a failure while half open, and close only on a full row of successes while half open.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from router.core.events import Decision
from router.core.failure import Effect
from router.core.health import BreakerRules, EngineHealth, HealthRules, Probe, Standing
from router.core.ledger import Ledger
from router.core.pair import Pair, Pin
from router.core.policy import ThresholdPolicy
from router.core.words import BreakerState, DecisionReason, Outcome, Path, Placement
from tests.property.walks import Recorder, multiplied, switches_of
from tests.support import FakeClock, RecordingObserver
from tests.support.wishes import named

CLOSED, OPEN, HALF_OPEN = BreakerState
GOOD, DOUBTFUL, DEAD = Standing

paths = st.sampled_from(Path)
effects = st.sampled_from([Effect.FAILURE, Effect.FAILURE, Effect.SUCCESS, Effect.NEUTRAL])


class PairMachine(RuleBasedStateMachine):
    @initialize(
        failures=st.integers(1, 3),
        successes=st.integers(1, 3),
        dwell=st.sampled_from([0.0, 2.0, 6.0]),
        smoothing=st.sampled_from([0.0, 1.0]),
    )
    def begin(self, failures: int, successes: int, dwell: float, smoothing: float) -> None:
        self.clock = FakeClock()
        self.breaker_rules = BreakerRules(failures, successes, 4.0)
        self.engines = {path: EngineHealth(self.breaker_rules, HealthRules(2, 2)) for path in Path}
        self.ledger = Ledger(self.clock)
        self.observer = RecordingObserver()
        self.policy = Recorder(ThresholdPolicy(4, 2, dwell, smoothing))
        self.pair = Pair(
            "default", Placement.SHARED, self.engines, self.policy, self.ledger, self.clock, self.observer
        )
        self.first = self.pair.state
        self.running: list[Decision] = []
        # Results that count since the breaker last changed its state, by path.
        self.row: dict[Path, list[Effect]] = {path: [] for path in Path}
        self.opened_at: dict[Path, float] = {}
        self.openings = dict.fromkeys(Path, 0)

    def state(self, path: Path) -> BreakerState:
        return self.engines[path].breaker.state(self.clock())

    def standing(self, path: Path) -> Standing:
        return self.engines[path].standing(self.clock())

    def trials(self, path: Path) -> int:
        return sum(decision.trial and decision.path is path for decision in self.running)

    # Requests.

    @rule(asked=st.one_of(st.none(), st.none(), paths))
    def decide(self, asked: Path | None) -> None:
        standing = {path: self.standing(path) for path in Path}
        free = [path for path in Path if self.state(path) is HALF_OPEN and not self.trials(path)]
        decision = self.pair.decide(named(asked))
        if decision is None:
            assert set(standing.values()) == {DEAD}
            assert not free, "an engine that may be tried was not"
            return
        assert self.observer.decisions[-1] is decision
        path = decision.path
        if standing[path] is DEAD:
            assert decision == Decision(path, DecisionReason.PROBE, trial=True)
            assert path in free
        else:
            assert decision.trial is False
            assert decision.reason is not DecisionReason.PROBE
            assert standing[path] is GOOD or standing[path.other] is not GOOD
            self.judge_reason(decision, asked)
        self.running.append(decision)

    def judge_reason(self, decision: Decision, asked: Path | None) -> None:
        """An ordinary request goes where new requests go now, or where it asked to."""
        if asked is decision.path:
            assert decision.reason is DecisionReason.HEADER
            return
        assert decision.path is self.pair.active_path
        pin = self.pair.pin
        wanted = pin.path if pin else self.pair.state.regime
        right = DecisionReason.PINNED if pin else DecisionReason.POLICY
        assert decision.reason is (right if decision.path is wanted else DecisionReason.FAILOVER)

    def finish(self, index: int, effect: Effect) -> Decision:
        decision = self.running.pop(index % len(self.running))
        path = decision.path
        before = self.state(path)
        self.pair.report(decision, effect)
        self.judge_breaker(path, before, effect)
        return decision

    def judge_breaker(self, path: Path, before: BreakerState, effect: Effect) -> None:
        after, row = self.state(path), self.row[path]
        if effect is Effect.NEUTRAL:
            assert after is before
            return
        row.append(effect)
        if before is CLOSED:
            row_of_failures = [Effect.FAILURE] * self.breaker_rules.failure_threshold
            expected = OPEN if row[-self.breaker_rules.failure_threshold :] == row_of_failures else CLOSED
        elif before is HALF_OPEN and effect is Effect.FAILURE:
            expected = OPEN
        elif before is HALF_OPEN:
            expected = CLOSED if len(row) >= self.breaker_rules.success_threshold else HALF_OPEN
        else:
            row.pop()  # a result from before the opening changes nothing
            expected = OPEN
        assert after is expected
        if after is not before:
            row.clear()
            if after is OPEN:
                self.openings[path] += 1
                self.opened_at[path] = self.clock()
            else:
                del self.opened_at[path]

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 99), effect=effects)
    def report(self, index: int, effect: Effect) -> None:
        self.finish(index, effect)

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 99), effect=st.sampled_from([Effect.FAILURE, Effect.NEUTRAL]))
    def retry(self, index: int, effect: Effect) -> None:
        failed = self.finish(index, effect).path
        other = failed.other
        dead = self.standing(other) is DEAD
        free = self.state(other) is HALF_OPEN and not self.trials(other)
        target = self.pair.decide_retry(failed)
        assert (target is None) is (dead and not free)
        if target:
            assert target == Decision(other, DecisionReason.RETRY, trial=free)
            self.running.append(target)

    @rule(path=paths)
    def break_down(self, path: Path) -> None:
        """As many requests as it takes fail on one path, if they get there."""
        for _ in range(self.breaker_rules.failure_threshold):
            before = len(self.running)
            self.decide(path)
            if len(self.running) > before and self.running[-1].path is path:
                self.finish(-1, Effect.FAILURE)

    # Everything else.

    @rule(path=paths, found=st.sampled_from(Probe), deep=st.booleans(), ago=st.sampled_from([0.0, 1.0]))
    def probe(self, path: Path, found: Probe, deep: bool, ago: float) -> None:
        record = self.engines[path].record_deep if deep else self.engines[path].record_ready
        before = self.state(path)
        record(found, self.clock() - ago)
        assert self.state(path) is before, "a probe moved a breaker"

    @rule(path=paths)
    def bytes_flow(self, path: Path) -> None:
        self.engines[path].record_flow(self.clock())

    @rule(eighths=st.integers(1, 40))
    def time_passes(self, eighths: int) -> None:
        self.clock.advance(eighths / 8)

    @rule(n=st.integers(0, 6))
    def load(self, n: int) -> None:
        for lease in self.ledger.open_leases()[n:]:
            lease.close(Outcome.OK)
        while self.ledger.n < n:
            self.ledger.open()

    @rule(path=st.one_of(st.none(), paths), seconds=st.sampled_from([None, 0.5, 5.0]))
    def pin(self, path: Path | None, seconds: float | None) -> None:
        until = None if seconds is None else self.clock() + seconds
        self.pair.pin = Pin(path, "test", until) if path else None

    @rule()
    def evaluate(self) -> None:
        self.pair.evaluate()

    @invariant()
    def one_trial_at_a_time(self) -> None:
        for path in Path:
            assert self.trials(path) <= 1

    @invariant()
    def breakers_are_what_their_history_says(self) -> None:
        waits = []
        for path, engine in self.engines.items():
            opened_at = self.opened_at.get(path)
            if opened_at is None:
                assert self.state(path) is CLOSED
            else:
                left = max(0.0, opened_at + self.breaker_rules.open_for - self.clock())
                assert self.state(path) is (OPEN if left else HALF_OPEN)
                assert engine.breaker.reopens_in(self.clock()) == left
                waits.append(left)
            assert engine.breaker.opened_total == self.openings[path]
        assert self.pair.retry_in() == min(waits, default=0.0)

    @invariant()
    def readiness_means_that_a_known_engine_can_serve(self) -> None:
        standing = {path: self.standing(path) for path in Path}
        able = [path for path in Path if standing[path] is GOOD] or [
            path for path in Path if standing[path] is DOUBTFUL
        ]
        waiting = [path for path in Path if self.engines[path].promising(self.clock())]
        assert all(self.state(path) is HALF_OPEN for path in waiting)
        assert self.pair.serving() is any(self.engines[path].seen_up for path in [*able, *waiting])
        for path in Path:
            assert self.engines[path].up(self.clock()) is (
                self.engines[path].seen_up and standing[path] is GOOD
            )

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        replayed = switches_of(self.policy.policy, self.first, self.policy.seen)
        assert replayed == self.observer.switches
        assert list(self.pair.switches) == replayed
        for decision in self.running:
            self.pair.report(decision, Effect.NEUTRAL)
        self.clock.advance(self.breaker_rules.open_for)
        for path in Path:
            assert self.engines[path].breaker.trial_free(self.clock()) is (self.state(path) is HALF_OPEN)


TestPair = PairMachine.TestCase
TestPair.settings = settings(max_examples=multiplied(2))
