"""The life of a lease, move by move."""

from __future__ import annotations

import asyncio

import pytest

from router.core.ledger import Lease, Ledger, LedgerError
from router.core.words import Outcome, Path
from tests.support import FakeClock

SPECULATIVE, BASELINE = Path


def counts(ledger: Ledger) -> tuple[int, int, int, int]:
    """N, queued, active on speculative, active on baseline."""
    return ledger.n, ledger.queued, ledger.active_on(SPECULATIVE), ledger.active_on(BASELINE)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100.0)


@pytest.fixture
def ledger(clock: FakeClock) -> Ledger:
    return Ledger(clock)


def test_an_empty_ledger_counts_nothing(ledger: Ledger) -> None:
    assert counts(ledger) == (0, 0, 0, 0)
    assert (ledger.opened, ledger.open_leases(), ledger.mixed, ledger.mixed_seconds()) == (0, (), False, 0.0)
    assert ledger.closed == {Outcome.OK: 0, Outcome.FAILED: 0, Outcome.CANCELLED: 0, Outcome.REJECTED: 0}


def test_a_lease_from_its_opening_to_its_end(ledger: Ledger, clock: FakeClock) -> None:
    lease = ledger.open()
    assert (counts(ledger), ledger.opened, ledger.active) == ((1, 1, 0, 0), 1, 0)
    assert (lease.opened_at, lease.started_at, lease.path, lease.is_open) == (100.0, None, None, True)
    clock.advance(1.5)
    lease.start(SPECULATIVE)
    assert (counts(ledger), ledger.active, ledger.open_leases()) == ((1, 0, 1, 0), 1, (lease,))
    assert (lease.started_at, lease.path) == (101.5, SPECULATIVE)
    clock.advance(1.0)
    lease.move(BASELINE)
    assert counts(ledger) == (1, 0, 0, 1)
    assert (lease.started_at, lease.path) == (101.5, BASELINE)
    clock.advance(2.0)
    assert lease.close(Outcome.OK) is True
    assert (counts(ledger), ledger.open_leases()) == ((0, 0, 0, 0), ())
    assert (lease.outcome, lease.closed_at, lease.is_open) == (Outcome.OK, 104.5, False)
    assert ledger.closed[Outcome.OK] == 1


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("path", [None, *Path])
def test_a_lease_ends_from_the_queue_or_from_a_path_with_any_outcome(
    ledger: Ledger, outcome: Outcome, path: Path | None
) -> None:
    lease = ledger.open()
    if path:
        lease.start(path)
    assert lease.close(outcome) is True
    assert counts(ledger) == (0, 0, 0, 0)
    assert ledger.closed == {each: int(each is outcome) for each in Outcome}


def test_a_second_close_changes_nothing_and_says_so(clock: FakeClock) -> None:
    told: list[Lease] = []
    ledger = Ledger(clock, told.append)
    lease = ledger.open()
    lease.close(Outcome.CANCELLED)
    clock.advance(1.0)
    assert lease.close(Outcome.OK) is False
    assert (lease.outcome, lease.closed_at) == (Outcome.CANCELLED, 100.0)
    assert (ledger.closed[Outcome.OK], ledger.closed[Outcome.CANCELLED], told) == (0, 1, [lease])


def test_who_is_told_of_an_end_finds_the_counts_right_already(clock: FakeClock) -> None:
    seen: list[tuple[tuple[int, int, int, int], Outcome | None, int]] = []

    def on_close(lease: Lease) -> None:
        seen.append((counts(book), lease.outcome, book.closed[Outcome.OK]))

    book = Ledger(clock, on_close)
    kept, ended = book.open(), book.open()
    kept.start(BASELINE)
    ended.start(BASELINE)
    ended.close(Outcome.OK)
    assert seen == [((1, 0, 0, 1), Outcome.OK, 1)]


def test_only_a_queued_lease_starts(ledger: Ledger) -> None:
    active, closed = ledger.open(), ledger.open()
    active.start(SPECULATIVE)
    closed.close(Outcome.REJECTED)
    for lease in (active, closed):
        with pytest.raises(LedgerError, match="only a queued lease can start"):
            lease.start(BASELINE)
    assert (counts(ledger), active.path, closed.path) == ((1, 0, 1, 0), SPECULATIVE, None)


def test_only_an_active_lease_moves(ledger: Ledger) -> None:
    queued, closed = ledger.open(), ledger.open()
    closed.start(SPECULATIVE)
    closed.close(Outcome.OK)
    for lease in (queued, closed):
        with pytest.raises(LedgerError, match="only an active lease can move"):
            lease.move(BASELINE)
    assert (counts(ledger), queued.path, closed.path) == ((1, 1, 0, 0), None, SPECULATIVE)


def test_a_lease_of_another_ledger_is_not_taken(ledger: Ledger, clock: FakeClock) -> None:
    stranger = Ledger(clock).open()
    with pytest.raises(LedgerError):
        ledger._start(stranger, SPECULATIVE)
    assert counts(ledger) == (0, 0, 0, 0)


def test_a_move_to_the_same_path_changes_nothing(ledger: Ledger) -> None:
    lease = ledger.open()
    lease.start(BASELINE)
    lease.move(BASELINE)
    assert (counts(ledger), lease.path) == ((1, 0, 0, 1), BASELINE)


def test_mixed_time_runs_while_both_engines_have_requests(ledger: Ledger, clock: FakeClock) -> None:
    first, second, third = (ledger.open() for _ in range(3))
    first.start(SPECULATIVE)
    clock.advance(8.0)
    assert (ledger.mixed, ledger.mixed_seconds()) == (False, 0.0)
    second.start(BASELINE)
    clock.advance(1.0)
    assert (ledger.mixed, ledger.mixed_seconds()) == (True, 1.0), "it counts while it lasts"
    third.start(BASELINE)
    clock.advance(2.0)
    assert ledger.mixed_seconds() == 3.0
    second.close(Outcome.OK)
    clock.advance(4.0)
    assert ledger.mixed_seconds() == 7.0, "a second request on a path does not start it anew"
    first.move(BASELINE)
    clock.advance(16.0)
    assert (ledger.mixed, ledger.mixed_seconds()) == (False, 7.0)
    fourth = ledger.open()
    fourth.start(SPECULATIVE)
    clock.advance(32.0)
    assert ledger.mixed_seconds() == 39.0


def test_a_block_ends_its_lease_with_the_last_outcome_noted(ledger: Ledger) -> None:
    with ledger.open() as lease:
        lease.settle(Outcome.REJECTED)
        lease.settle(Outcome.OK)
        assert lease.is_open
    assert lease.outcome is Outcome.OK


def test_a_block_that_notes_nothing_has_failed(ledger: Ledger) -> None:
    with ledger.open() as lease:
        pass
    assert lease.outcome is Outcome.FAILED


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("noted", [None, Outcome.CANCELLED])
def test_whatever_leaves_a_block_ends_its_lease_and_goes_on(
    ledger: Ledger, error: type[BaseException], noted: Outcome | None
) -> None:
    lease = ledger.open()
    with pytest.raises(error), lease:
        lease.start(SPECULATIVE)
        if noted:
            lease.settle(noted)
        raise error
    assert (lease.outcome, counts(ledger)) == (noted or Outcome.FAILED, (0, 0, 0, 0))


def test_a_block_leaves_a_lease_that_was_closed_inside_as_it_is(ledger: Ledger) -> None:
    with ledger.open() as lease:
        lease.close(Outcome.CANCELLED)
        lease.settle(Outcome.OK)
    assert lease.outcome is Outcome.CANCELLED
    assert ledger.closed[Outcome.OK] == 0


def test_the_list_of_open_leases_is_a_copy(ledger: Ledger) -> None:
    queued, active = ledger.open(), ledger.open()
    active.start(BASELINE)
    for lease in ledger.open_leases():
        lease.close(Outcome.CANCELLED)
    assert (queued.outcome, active.outcome, ledger.n) == (Outcome.CANCELLED, Outcome.CANCELLED, 0)
