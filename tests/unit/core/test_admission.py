"""The door: slots, the queue, and the wait that a refused client is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from router.core.admission import Admission, DrainRate, Entry
from router.core.ledger import Lease, Ledger
from router.core.words import Outcome, Path
from tests.support import FakeClock


class Door:
    """An admission with the least a proxy does around it."""

    def __init__(self, max_active: int, queue_size: int) -> None:
        self.ledger = Ledger(FakeClock(), lambda lease: self.admission.pump())
        self.admission = Admission(self.ledger, max_active, queue_size)
        self.turns: list[Lease] = []

    def enter(self, on_turn: Callable[[Lease], None] | None = None) -> tuple[Lease, Entry]:
        lease = self.ledger.open()

        def turn() -> None:
            self.turns.append(lease)
            (on_turn or (lambda it: it.start(Path.BASELINE)))(lease)

        entry = self.admission.enter(lease, turn)
        if entry is Entry.ADMITTED:
            lease.start(Path.BASELINE)
        elif entry is Entry.FULL:
            lease.close(Outcome.REJECTED)
        return lease, entry


def test_slots_then_queue_then_full() -> None:
    door = Door(max_active=2, queue_size=1)
    entries = [door.enter()[1] for _ in range(4)]
    assert entries == [Entry.ADMITTED, Entry.ADMITTED, Entry.QUEUED, Entry.FULL]
    assert (door.ledger.active, door.ledger.queued, door.admission.waiting, door.turns) == (2, 1, 1, [])


def test_without_a_queue_nobody_waits() -> None:
    door = Door(max_active=1, queue_size=0)
    assert [door.enter()[1] for _ in range(2)] == [Entry.ADMITTED, Entry.FULL]


def test_each_slot_that_becomes_free_goes_to_who_came_first() -> None:
    door = Door(max_active=1, queue_size=3)
    first, second, third = (door.enter()[0] for _ in range(3))
    first.close(Outcome.OK)
    assert (door.turns, second.path, third.path) == ([second], Path.BASELINE, None)
    second.close(Outcome.FAILED)
    assert (door.turns, door.admission.waiting) == ([second, third], 0)


def test_who_leaves_the_queue_is_not_called() -> None:
    door = Door(max_active=1, queue_size=3)
    first, second, third = (door.enter()[0] for _ in range(3))
    door.admission.leave(second)
    door.admission.leave(first)  # not waiting: harmless
    second.close(Outcome.CANCELLED)
    assert door.admission.waiting == 1
    first.close(Outcome.OK)
    assert door.turns == [third]


def test_a_turn_that_is_not_taken_passes_to_the_next() -> None:
    door = Door(max_active=1, queue_size=3)

    def give_up(lease: Lease) -> None:
        lease.close(Outcome.CANCELLED)

    first, _ = door.enter()
    gone, _ = door.enter(give_up)
    next_one, _ = door.enter()
    first.close(Outcome.OK)
    assert (door.turns, next_one.path, door.ledger.active) == ([gone, next_one], Path.BASELINE, 1)


def test_a_newcomer_does_not_overtake_the_queue() -> None:
    ledger = Ledger(FakeClock())  # nobody pumps when a lease ends
    admission = Admission(ledger, max_active=1, queue_size=2)
    first, second, third = (ledger.open() for _ in range(3))
    assert admission.enter(first, lambda: None) is Entry.ADMITTED
    first.start(Path.BASELINE)
    assert admission.enter(second, lambda: second.start(Path.BASELINE)) is Entry.QUEUED
    first.close(Outcome.OK)
    assert admission.enter(third, lambda: third.start(Path.BASELINE)) is Entry.QUEUED, "though a slot is free"
    admission.pump()
    assert (second.path, third.path, admission.waiting) == (Path.BASELINE, None, 1)


def test_limits_that_a_reload_changes_hold_at_once() -> None:
    door = Door(max_active=1, queue_size=1)
    door.enter()
    second, _ = door.enter()
    door.admission.max_active, door.admission.queue_size = 2, 2
    door.admission.pump()
    assert second.path is Path.BASELINE
    assert [door.enter()[1] for _ in range(3)] == [Entry.QUEUED, Entry.QUEUED, Entry.FULL]


def test_a_pump_with_nobody_waiting_does_nothing() -> None:
    door = Door(max_active=1, queue_size=1)
    door.admission.pump()
    assert (door.turns, door.ledger.n) == ([], 0)


def test_the_rate_counts_the_recent_past() -> None:
    clock = FakeClock(0.0)
    rate = DrainRate(clock, horizon=10.0)
    assert rate.per_second() == 0.0
    for _ in range(5):
        rate.record()
    assert rate.per_second() == 0.5
    clock.advance(10.0)
    assert rate.per_second() == pytest.approx(0.5 * 0.36787944, rel=1e-6)


def test_the_rate_of_steady_work_is_its_true_rate() -> None:
    clock = FakeClock(0.0)
    rate = DrainRate(clock, horizon=10.0)
    for _ in range(2000):
        clock.advance(0.125)
        rate.record()
    assert rate.per_second() == pytest.approx(8.0, rel=0.01)


@pytest.mark.parametrize(
    ("finished", "idle", "ahead", "seconds"),
    [
        (0, 0.0, 0, 1),
        (0, 0.0, 1, 30),
        (10, 0.0, 0, 1),
        (10, 0.0, 1, 1),
        (10, 0.0, 2, 2),
        (10, 0.0, 29, 29),
        (10, 0.0, 30, 30),
        (10, 0.0, 500, 30),
        (4, 0.0, 1, 3),
        (1, 60.0, 1, 30),
        (1, 7100.0, 1, 30),  # a rate so small that the quotient is infinite
        (1, 1e6, 1, 30),
        (1, 1e6, 0, 1),
    ],
)
def test_the_wait_that_is_told_is_whole_seconds_within_bounds(
    finished: int, idle: float, ahead: int, seconds: int
) -> None:
    clock = FakeClock(0.0)
    rate = DrainRate(clock, horizon=10.0)
    for _ in range(finished):
        rate.record()
    clock.advance(idle)
    wait = rate.retry_after(ahead)
    assert (wait, type(wait)) == (seconds, int)
