"""Whether an engine may get requests: a breaker fed by traffic, and probes that traffic outranks.

Breaker (open in the electrical sense: nothing flows)

    closed ──failure_threshold failures in a row──▶ open ──open_for──▶ half_open
      ▲                                              ▲                   │   │
      └────────── success_threshold trials in a row ─┼───────────────────┘   │
                                                     └──── a failed trial ───┘

In half_open one request at a time is let through as a trial, so a recovering engine gets a share of
one and not the whole herd.

Standing, from the best to the worst evidence:

* `dead`: traffic says so (breaker open), or a probe was refused `failure_threshold` times in a row, or it
  is not the engine that it should be (`miswired`, see `core/identity.py`);
* `doubtful`: only a probe says so: not ready, slow, or hung. Gets nothing while the other engine is
  good, but a probe alone never takes the last engine away;
* `good`: everything else, an engine not yet probed included.

A probe that fails while the engine delivers bytes, or when it has just done so, proves only that it is
busy, and is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from router.core.failure import Effect
from router.core.words import BreakerState

# Seconds for which bytes speak for an engine against the probes that begin behind them: flow is told with a
# delay, and an answer of "unwell" takes no time at all.
FLOW_SPEAKS = 2.0


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Thresholds are counts in a row; `open_for` is seconds."""

    failure_threshold: int
    success_threshold: int
    open_for: float


@dataclass(frozen=True, slots=True)
class HealthRules:
    """Counts of probes in a row after which an engine is doubted, and trusted again."""

    failure_threshold: int
    success_threshold: int


class Breaker:
    """A circuit breaker over the results of real requests."""

    __slots__ = ("_failures", "_opened_at", "_successes", "_trials", "opened_total", "rules")

    def __init__(self, rules: BreakerRules) -> None:
        self.rules = rules
        self._failures = 0
        self._successes = 0
        self._trials = 0
        self._opened_at: float | None = None
        self.opened_total = 0

    def state(self, now: float) -> BreakerState:
        """The state at `now`: an open breaker becomes half open by the passing of time alone."""
        if self._opened_at is None:
            return BreakerState.CLOSED
        if now - self._opened_at < self.rules.open_for:
            return BreakerState.OPEN
        return BreakerState.HALF_OPEN

    def reopens_in(self, now: float) -> float:
        """Seconds until an open breaker lets a trial through; 0 when it does already."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self.rules.open_for - (now - self._opened_at))

    def trial_free(self, now: float) -> bool:
        """True if a half-open breaker would let one request through now."""
        return self.state(now) is BreakerState.HALF_OPEN and self._trials == 0

    def begin_trial(self) -> None:
        """A trial request is on its way."""
        self._trials += 1

    def end_trial(self) -> None:
        """The trial request ended, whatever its result."""
        self._trials = max(0, self._trials - 1)

    def record(self, effect: Effect, now: float) -> None:
        """Count the result of a request."""
        if effect is Effect.NEUTRAL:
            return
        state = self.state(now)
        if effect is Effect.SUCCESS:
            self._failures = 0
            if state is BreakerState.HALF_OPEN:
                self._successes += 1
                if self._successes >= self.rules.success_threshold:
                    self._opened_at = None
            return
        self._failures += 1
        if state is BreakerState.HALF_OPEN or (
            state is BreakerState.CLOSED and self._failures >= self.rules.failure_threshold
        ):
            self._opened_at = now
            self._successes = 0
            self._failures = 0
            self.opened_total += 1


class Probe(StrEnum):
    """What a health probe found."""

    OK = "ok"
    NOT_READY = "not_ready"  # the engine answered that it takes nothing new
    FAILED = "failed"  # a slow, wrong or broken answer
    REFUSED = "refused"  # nobody listens


class Standing(StrEnum):
    """How far an engine may be used."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    DEAD = "dead"


class _ProbeTrack:
    """Probes of one sort in a row."""

    __slots__ = ("bad", "doubted", "good", "refused", "rules")

    def __init__(self, rules: HealthRules) -> None:
        self.rules = rules
        self.good = self.bad = self.refused = 0
        self.doubted = False

    def record(self, found: Probe) -> None:
        if found is Probe.OK:
            self.good += 1
            self.bad = self.refused = 0
            if self.good >= self.rules.success_threshold:
                self.doubted = False
            return
        self.good = 0
        self.bad += 1
        self.refused = self.refused + 1 if found is Probe.REFUSED else 0
        # "Not ready" is the engine's own word, not a missed answer: believed at once.
        if found is Probe.NOT_READY or self.bad >= self.rules.failure_threshold:
            self.doubted = True


class EngineHealth:
    """All that is known of one engine's health.

    `miswired` is set by who judges the engine's identity, `drained` by an operator; both keep it out.
    """

    __slots__ = ("_deep", "_flowed_at", "_ready", "breaker", "drained", "miswired", "seen_up")

    def __init__(self, breaker: BreakerRules, probes: HealthRules) -> None:
        self.breaker = Breaker(breaker)
        self._ready = _ProbeTrack(probes)
        self._deep = _ProbeTrack(probes)
        self._flowed_at: float | None = None
        self.seen_up = False
        self.miswired = False
        self.drained = False

    def set_rules(self, breaker: BreakerRules, probes: HealthRules) -> None:
        """Judge by other rules from now on; what has been counted stays."""
        self.breaker.rules = breaker
        self._ready.rules = self._deep.rules = probes

    def record_flow(self, now: float) -> None:
        """The engine delivered bytes at `now`."""
        self._flowed_at = now
        self.seen_up = True

    def record_result(self, effect: Effect, now: float) -> None:
        """A request to the engine ended."""
        if effect is Effect.SUCCESS:
            self.record_flow(now)
        self.breaker.record(effect, now)

    def record_ready(self, found: Probe, began: float) -> None:
        """A readiness probe that began at `began` found this."""
        self._record(self._ready, found, began)
        if self._refusing:
            # The process is gone; what its scheduler did says nothing of the next one's.
            self._deep = _ProbeTrack(self._deep.rules)

    def record_deep(self, found: Probe, began: float) -> None:
        """A deep probe (one that makes the scheduler work) that began at `began` found this."""
        self._record(self._deep, found, began)

    def _record(self, track: _ProbeTrack, found: Probe, began: float) -> None:
        if found is Probe.FAILED and self._flowed_at is not None and began - self._flowed_at <= FLOW_SPEAKS:
            return
        if found is Probe.OK:
            self.seen_up = True
        track.record(found)

    def standing(self, now: float) -> Standing:
        """How far the engine may be used at `now`; a half-open breaker counts as dead but for its trial."""
        if self._kept_out or self._refusing or self.breaker.state(now) is not BreakerState.CLOSED:
            return Standing.DEAD
        return Standing.DOUBTFUL if self._ready.doubted or self._deep.doubted else Standing.GOOD

    @property
    def _kept_out(self) -> bool:
        return self.miswired or self.drained

    @property
    def _refusing(self) -> bool:
        return self._ready.refused >= self._ready.rules.failure_threshold

    def promising(self, now: float) -> bool:
        """True if only a half-open breaker keeps the engine out: nothing but a request can tell more."""
        dead = self._kept_out or self._refusing
        return not dead and self.breaker.state(now) is BreakerState.HALF_OPEN

    def trial_free(self, now: float) -> bool:
        """True if one request may try the engine though its breaker is not closed."""
        return not self._kept_out and self.breaker.trial_free(now)

    def up(self, now: float) -> bool:
        """True if the engine has been seen alive and nothing speaks against it now."""
        return self.seen_up and self.standing(now) is Standing.GOOD
