"""The ledger and the door against a model that counts by itself.

Whatever order requests are opened, queued, started, moved, retried, abandoned and closed in, and whatever
is learned about the engines meanwhile: in flight = opened − closed, every lease is in exactly one place, the
queue is first come first served, and mixed time is what a clock held beside it says.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from router.core.admission import Admission, Entry
from router.core.failure import Effect
from router.core.health import BreakerRules, EngineHealth, HealthRules, Probe
from router.core.ledger import Lease, Ledger, LedgerError
from router.core.pair import Pair, Pin
from router.core.policy import ThresholdPolicy
from router.core.words import Outcome, Path, Placement
from tests.property.walks import multiplied
from tests.support import FakeClock, RecordingObserver
from tests.support.wishes import named

ERRORS = [
    None,
    ValueError,
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    BaseException,
]

paths = st.sampled_from(Path)
outcomes = st.sampled_from(Outcome)
eighths = st.integers(0, 80).map(lambda count: count / 8)


@dataclass(eq=False)
class Request:
    """What the model knows of one lease."""

    lease: Lease
    opened_at: float
    place: str = "queued"  # queued | active | closed
    path: Path | None = None
    outcome: Outcome | None = None
    turn: Path | Outcome = Path.BASELINE  # what it does when its turn comes


class LedgerMachine(RuleBasedStateMachine):
    requests = Bundle("requests")

    @initialize(max_active=st.integers(1, 3), queue_size=st.integers(0, 3), pumped=st.booleans())
    def begin(self, max_active: int, queue_size: int, pumped: bool) -> None:
        self.clock = FakeClock()
        self.pumped = pumped
        self.ended: list[Lease] = []
        self.ledger = Ledger(self.clock, self.on_close)
        self.admission = Admission(self.ledger, max_active, queue_size)
        self.engines = {path: EngineHealth(BreakerRules(2, 1, 3.0), HealthRules(2, 1)) for path in Path}
        policy = ThresholdPolicy(high=3, low=1, dwell=1.0, smoothing=0.5)
        self.pair = Pair(
            "default", Placement.SHARED, self.engines, policy, self.ledger, self.clock, RecordingObserver()
        )
        self.turns: list[Request] = []
        # the model
        self.known: list[Request] = []
        self.line: deque[Request] = deque()
        self.expected_turns: list[Request] = []
        self.expected_ends: list[Lease] = []
        self.mixed_seconds = 0.0
        self.last_mixed_seconds = 0.0

    def on_close(self, lease: Lease) -> None:
        self.ended.append(lease)
        if self.pumped:
            self.admission.pump()

    # The model's moves.

    def active(self, path: Path | None = None) -> int:
        return sum(it.place == "active" and path in (None, it.path) for it in self.known)

    def model_start(self, request: Request, path: Path) -> None:
        request.place, request.path = "active", path

    def model_close(self, request: Request, outcome: Outcome) -> None:
        request.place, request.outcome = "closed", outcome
        self.expected_ends.append(request.lease)
        if self.pumped:
            self.model_pump()

    def model_pump(self) -> None:
        while self.line and self.active() < self.admission.max_active:
            request = self.line.popleft()
            self.expected_turns.append(request)
            if request.place != "queued":
                continue
            if isinstance(request.turn, Path):
                self.model_start(request, request.turn)
            else:
                self.model_close(request, request.turn)

    # What happens to requests.

    @rule(target=requests)
    def open(self) -> Request:
        request = Request(self.ledger.open(), self.clock.now)
        self.known.append(request)
        return request

    @rule(request=requests, turn=st.one_of(paths, outcomes))
    def enter_the_queue(self, request: Request, turn: Path | Outcome) -> None:
        if request.place != "queued" or request in self.line:
            return
        if not self.line and self.active() < self.admission.max_active:
            expected = Entry.ADMITTED
        elif len(self.line) < self.admission.queue_size:
            expected = Entry.QUEUED
        else:
            expected = Entry.FULL
        entry = self.admission.enter(request.lease, lambda: self.take_turn(request))
        assert entry is expected
        if entry is Entry.QUEUED:
            request.turn = turn
            self.line.append(request)
        elif entry is Entry.FULL:
            self.end(request, Outcome.REJECTED)
        else:
            path = turn if isinstance(turn, Path) else Path.SPECULATIVE
            request.lease.start(path)
            self.model_start(request, path)

    def take_turn(self, request: Request) -> None:
        self.turns.append(request)
        if not request.lease.is_open:
            return
        if isinstance(request.turn, Path):
            request.lease.start(request.turn)
        else:
            request.lease.close(request.turn)

    @rule(request=requests)
    def leave_the_queue(self, request: Request) -> None:
        self.admission.leave(request.lease)
        if request in self.line:
            self.line.remove(request)

    @rule()
    def pump(self) -> None:
        self.admission.pump()
        self.model_pump()

    @rule(request=requests, path=paths)
    def start_what_does_not_wait_to_start(self, request: Request, path: Path) -> None:
        if request.place != "queued":
            with pytest.raises(LedgerError):
                request.lease.start(path)

    @rule(request=requests, path=paths)
    def move(self, request: Request, path: Path) -> None:
        if request.place == "active":
            request.lease.move(path)
            request.path = path
        else:
            with pytest.raises(LedgerError):
                request.lease.move(path)

    def end(self, request: Request, outcome: Outcome) -> None:
        was_open = request.place != "closed"
        if was_open:
            self.model_close(request, outcome)
        assert request.lease.close(outcome) is was_open

    @rule(request=requests, outcome=outcomes, again=st.booleans())
    def close(self, request: Request, outcome: Outcome, again: bool) -> None:
        self.end(request, outcome)
        if again:
            self.end(request, Outcome.OK)

    @rule(request=requests, error=st.sampled_from(ERRORS), noted=st.one_of(st.none(), outcomes))
    def leave_the_block(
        self, request: Request, error: type[BaseException] | None, noted: Outcome | None
    ) -> None:
        if request.place != "closed":
            self.model_close(request, noted or Outcome.FAILED)
        expected = pytest.raises(error) if error else contextlib.nullcontext()
        with expected as caught, request.lease as lease:
            if noted:
                lease.settle(noted)
            if error:
                raise error
        assert caught is None or caught.type is error

    # What happens meanwhile, and must not count.

    @rule(path=paths, found=st.sampled_from(Probe), deep=st.booleans())
    def probe(self, path: Path, found: Probe, deep: bool) -> None:
        record = self.engines[path].record_deep if deep else self.engines[path].record_ready
        record(found, self.clock.now)
        self.pair.evaluate()

    @rule(path=paths, effect=st.sampled_from(Effect))
    def report(self, path: Path, effect: Effect) -> None:
        decision = self.pair.decide(named(path))
        if decision:
            self.pair.report(decision, effect)

    @rule(path=st.one_of(st.none(), paths))
    def pin(self, path: Path | None) -> None:
        self.pair.pin = Pin(path, "test", None) if path else None
        self.pair.evaluate()

    @rule(seconds=eighths)
    def time_passes(self, seconds: float) -> None:
        if self.active(Path.SPECULATIVE) and self.active(Path.BASELINE):
            self.mixed_seconds += seconds
        self.clock.advance(seconds)

    # What must hold after every step.

    @invariant()
    def in_flight_is_opened_minus_closed(self) -> None:
        ledger = self.ledger
        assert ledger.opened == len(self.known)
        assert ledger.closed == {
            outcome: sum(it.outcome is outcome for it in self.known) for outcome in Outcome
        }
        assert ledger.n == ledger.opened - sum(ledger.closed.values())
        assert ledger.queued == sum(it.place == "queued" for it in self.known)
        assert ledger.active == self.active()
        assert [ledger.active_on(path) for path in Path] == [self.active(path) for path in Path]

    @invariant()
    def every_lease_is_where_it_should_be_and_nowhere_else(self) -> None:
        leases = self.ledger.open_leases()
        assert len(leases) == len(set(leases))
        assert set(leases) == {it.lease for it in self.known if it.place != "closed"}
        for request in self.known:
            lease = request.lease
            assert (lease.outcome, lease.path) == (request.outcome, request.path)
            assert lease.opened_at == request.opened_at
            assert (lease.closed_at is None) is lease.is_open
        assert self.ended == self.expected_ends

    @invariant()
    def slots_are_never_overdrawn(self) -> None:
        assert self.ledger.active <= self.admission.max_active

    @invariant()
    def the_queue_is_first_come_first_served(self) -> None:
        assert self.turns == self.expected_turns
        assert self.admission.waiting == len(self.line) <= self.admission.queue_size

    @invariant()
    def mixed_time_is_the_model_s_and_never_shrinks(self) -> None:
        seconds = self.ledger.mixed_seconds()
        assert seconds == self.mixed_seconds
        assert seconds >= self.last_mixed_seconds
        self.last_mixed_seconds = seconds
        assert self.ledger.mixed is all(self.active(path) for path in Path)

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        self.pumped = False
        for lease in self.ledger.open_leases():
            lease.close(Outcome.CANCELLED)
        assert (self.ledger.n, self.ledger.queued, self.ledger.active) == (0, 0, 0)
        assert sum(self.ledger.closed.values()) == self.ledger.opened
        settled = self.ledger.mixed_seconds()
        self.clock.advance(1.0)
        assert self.ledger.mixed_seconds() == settled


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=multiplied(2))
