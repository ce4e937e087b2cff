"""A pair: the two engines of one model, and every decision about them.

This is the only place where the ledger, the policy and the engines' health meet. It knows no
socket; the proxy asks it where a request goes and tells it what became of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from router.core.classes import Wish
from router.core.degraded import Harm
from router.core.events import Decision, Observer
from router.core.failure import Effect
from router.core.health import EngineHealth, Standing
from router.core.identity import Problem, Verdict
from router.core.ledger import Clock, Ledger
from router.core.live import Live, PathLive
from router.core.policy import Policy, PolicyState, Snapshot, Switch
from router.core.reconcile import Reconciler
from router.core.shadow import Shadow
from router.core.words import BreakerState, DecisionReason, Path, Placement

SWITCHES_KEPT = 200


@dataclass(frozen=True, slots=True)
class Pin:
    """An operator's override. `until` is monotonic seconds; None: until it is taken away."""

    path: Path
    reason: str
    until: float | None


class Pair:
    """Decisions for one pair of engines.

    Args:
        name: the pair's name, a metric label.
        placement: see `Placement`; `single` has one engine.
        engines: health by path; one entry for `single`.
        policy: decides the active path.
        ledger: what is in flight.
        clock: monotonic seconds.
        observer: told of decisions and switches.
        reconcilers: what the engines hold beyond our leases, by path; none: nothing is known of it.
        max_excess: how many of those requests count at most.
        measure: what a path's engine says of its speed now; none: nothing is known of it.
    """

    def __init__(
        self,
        name: str,
        placement: Placement,
        engines: Mapping[Path, EngineHealth],
        policy: Policy,
        ledger: Ledger,
        clock: Clock,
        observer: Observer,
        reconcilers: Mapping[Path, Reconciler] | None = None,
        max_excess: int = 0,
        measure: Callable[[Path], PathLive] | None = None,
    ) -> None:
        self.name = name
        self.placement = placement
        self.engines = dict(engines)
        self.policy = policy
        self.ledger = ledger
        self.pin: Pin | None = None
        self.switches: deque[Switch] = deque(maxlen=SWITCHES_KEPT)
        self._clock = clock
        self._observer = observer
        self.reconcilers = dict(reconcilers or {})
        self.max_excess = max_excess
        self._measure = measure or (lambda path: PathLive())
        self.shadow: Shadow | None = None
        self.harm = Harm()
        self.problems: tuple[Problem, ...] = ()
        first = policy.first_path if policy.first_path in self.engines else next(iter(self.engines))
        self.state = PolicyState(active=first, regime=first)
        self.began = clock()
        self._active_seconds = dict.fromkeys(self.engines, 0.0)
        self.on_record: Callable[[PolicyState, Snapshot, Switch], None] = lambda before, seen, switch: None

    def now(self) -> float:
        """The pair's clock: monotonic seconds."""
        return self._clock()

    @property
    def active_path(self) -> Path:
        """Where new requests go."""
        return self.state.active

    @property
    def active_since(self) -> float:
        """Monotonic time of the last switch, or of the start."""
        return self.began if self.state.switched_at is None else self.state.switched_at

    def active_seconds(self, path: Path) -> float:
        """Seconds so far for which `path` was the active one."""
        running = self.now() - self.active_since if path is self.active_path else 0.0
        return self._active_seconds[path] + running

    @property
    def excess(self) -> int:
        """Requests that load the engines beyond our leases, at most `max_excess`."""
        if not self.reconcilers:
            return 0
        beyond = sum(reconciler.excess() for reconciler in self.reconcilers.values())
        return min(self.max_excess, beyond)

    def evaluate(self) -> Switch | None:
        """Ask the policy what it makes of this moment. Called for every request and by a timer."""
        now = self._clock()
        if self.pin and self.pin.until is not None and now >= self.pin.until:
            self.pin = None
        excess = self.excess
        pin = self.pin.path if self.pin else None
        live = self._live()
        if len(self.engines) > 1:
            self.harm = self.harm.look(live, now)
        eligible, degraded = self._eligible(now), self.harm.degraded
        seen = Snapshot(now, self.ledger.n + excess, eligible, pin, excess, live, degraded)
        before = self.state
        self.state, switch = self.policy.step(before, seen)
        if switch:
            began = self.began if before.switched_at is None else before.switched_at
            self._active_seconds[switch.origin] += switch.at - began
            self.switches.append(switch)
            self._observer.on_switch(switch)
            self.on_record(before, seen, switch)
        if self.shadow:
            self.shadow.look(seen)
        return switch

    def decide(self, wish: Wish | None = None) -> Decision | None:
        """The path for a request that is about to start; None if no engine can serve it.

        Args:
            wish: what the request itself says about its path.
        """
        self.evaluate()
        now = self._clock()
        decision = self._choose(wish, now)
        if decision:
            if decision.trial:
                self.engines[decision.path].breaker.begin_trial()
            self._observer.on_decision(decision)
        return decision

    def rewire(self, verdict: Verdict) -> None:
        """Use the engines as the verdict on their wiring says; `engines` have been exchanged before."""
        self.problems = verdict.problems
        for path, engine in self.engines.items():
            engine.miswired = path in verdict.excluded
        self.evaluate()

    def can_retry(self, failed: Path) -> bool:
        """True if a request that failed on `failed` could be tried on the other path."""
        engine = self.engines.get(failed.other)
        if engine is None:
            return False
        now = self._clock()
        # Doubt is enough reason to prefer the other engine, not to refuse the only one that is left. And a
        # breaker that may be tried is: nothing else would, while the policy has no use for its path.
        return engine.standing(now) is not Standing.DEAD or engine.trial_free(now)

    def decide_retry(self, failed: Path) -> Decision | None:
        """The path for the second try of a request that failed on `failed`; None: there is none."""
        if not self.can_retry(failed):
            return None
        engine = self.engines[failed.other]
        trial = engine.trial_free(self._clock())
        if trial:
            engine.breaker.begin_trial()
        decision = Decision(failed.other, DecisionReason.RETRY, trial)
        self._observer.on_decision(decision)
        return decision

    def report(self, decision: Decision, effect: Effect) -> None:
        """Tell what an attempt did: exactly once for each decision that was acted on."""
        health, now = self.engines[decision.path], self._clock()
        before = health.standing(now)
        if decision.trial:
            health.breaker.end_trial()
        health.record_result(effect, now)
        if health.standing(now) is not before:  # the load has not changed yet: closing the lease does that
            self.evaluate()

    def serving(self) -> bool:
        """True if a request would find an engine that was seen alive: readiness of the router.

        An engine that waits for its trial counts. A balancer that sends nothing to a router that is not ready
        would otherwise keep the request away that could close its breaker.
        """
        now = self._clock()
        return any(
            engine.seen_up and (self._usable(path, now) or engine.promising(now))
            for path, engine in self.engines.items()
        )

    def retry_in(self) -> float:
        """Seconds until the first open breaker lets a trial through; 0 if none is open."""
        now = self._clock()
        breakers = [engine.breaker for engine in self.engines.values()]
        waits = [each.reopens_in(now) for each in breakers if each.state(now) is not BreakerState.CLOSED]
        return min(waits, default=0.0)

    def _choose(self, wish: Wish | None, now: float) -> Decision | None:
        if self.placement is Placement.SINGLE:
            (path,) = self.engines
            if self._usable(path, now):
                return Decision(path, DecisionReason.SINGLE)
            return self._trial(path, now)
        if wish and wish.only:
            return self._only(wish, now)
        if wish and self._usable(wish.path, now):
            return Decision(wish.path, wish.reason)
        wanted = self.pin.path if self.pin else self.state.regime
        if trial := self._trial(wish.path if wish else wanted, now):
            return trial
        active = self.state.overflow or self.state.active
        if self._usable(active, now):
            return Decision(active, self._reason(active, wanted))
        # The policy leaves a path that cannot serve, so now none can: whichever may be tried is.
        return self._trial(active, now) or self._trial(active.other, now)

    def _only(self, wish: Wish, now: float) -> Decision | None:
        """The wished path or none. A doubt does not count: no other engine could do better."""
        engine = self.engines[wish.path]
        if engine.standing(now) is not Standing.DEAD:
            return Decision(wish.path, wish.reason)
        return Decision(wish.path, wish.reason, trial=True) if engine.trial_free(now) else None

    def _reason(self, path: Path, wanted: Path) -> DecisionReason:
        if path not in (wanted, self.state.overflow):
            return DecisionReason.FAILOVER
        return DecisionReason.PINNED if self.pin or self.policy.kind == "pinned" else DecisionReason.POLICY

    def _trial(self, path: Path, now: float) -> Decision | None:
        if self.engines[path].trial_free(now):
            return Decision(path, DecisionReason.PROBE, trial=True)
        return None

    def _live(self) -> Live:
        """What is measured now, and our requests on each path."""
        faults = 0
        for engine in self.engines.values():
            faults += engine.breaker.opened_total
        return Live(self._path_live(Path.SPECULATIVE), self._path_live(Path.BASELINE), faults)

    def _path_live(self, path: Path) -> PathLive:
        active, found = self.ledger.active_on(path), self._measure(path)
        if found.active == active:
            return found
        return PathLive(
            active,
            found.at,
            found.tokens_per_second,
            found.accept_length,
            found.cache_hits,
            found.prefilled_per_second,
        )

    def _eligible(self, now: float) -> frozenset[Path]:
        """Paths that may get new requests: the good ones, or else those that only a probe doubts."""
        good, doubtful = [], []
        for path, engine in self.engines.items():
            standing = engine.standing(now)
            if standing is Standing.GOOD:
                good.append(path)
            elif standing is Standing.DOUBTFUL:
                doubtful.append(path)
        return frozenset(good or doubtful)

    def _usable(self, path: Path, now: float) -> bool:
        return self.engines[path].standing(now) is Standing.GOOD or path in self._eligible(now)
