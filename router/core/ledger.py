"""The ledger of leases: the one account of what is in flight.

A lease is the record of one request. Its life is

    queued ──start──▶ active on a path ──close──▶ ok | failed | cancelled | rejected
       │                  │  ▲
       │                  └──┘ move: to the other path, before any byte reached the client
       └─────────close────────────────────────▶ failed | cancelled | rejected

Rules, held by construction and tested as properties:

* a lease is opened once and closed exactly once; closing it again changes nothing and says so;
* every count is derived from the leases that are open, so no count can be negative and all
  return to zero with the last lease;
* nothing but `open`, `start`, `move` and `close` alters a count: health checks, reloads and
  switches have no way to.

Times are seconds of a monotonic clock that the caller hands in.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from router.core.words import Outcome, Path

Clock = Callable[[], float]


class LedgerError(Exception):
    """A move that the life of a lease does not allow: a fault in the router, never in its input."""


class Lease:
    """The accounting record of one request; made by `Ledger.open` only.

    Used as a context manager it cannot be forgotten: leaving the block closes it with the outcome
    that `settle` noted, or with `failed` where nothing was noted (an exception the block did not foresee).
    """

    __slots__ = ("_ledger", "_noted", "closed_at", "opened_at", "outcome", "path", "started_at")

    def __init__(self, ledger: Ledger, opened_at: float) -> None:
        self._ledger = ledger
        self._noted: Outcome | None = None
        self.opened_at = opened_at
        self.started_at: float | None = None
        self.closed_at: float | None = None
        self.path: Path | None = None
        self.outcome: Outcome | None = None

    @property
    def is_open(self) -> bool:
        """True until the lease is closed."""
        return self.outcome is None

    def start(self, path: Path) -> None:
        """Queued → active on `path`."""
        self._ledger._start(self, path)

    def move(self, path: Path) -> None:
        """Active on one path → active on the other: a retry before the first byte."""
        self._ledger._move(self, path)

    def settle(self, outcome: Outcome) -> None:
        """Note the outcome with which leaving the `with` block will close the lease; the last note counts."""
        self._noted = outcome

    def close(self, outcome: Outcome) -> bool:
        """Close with `outcome`. False, and no effect, if it was closed before."""
        return self._ledger._close(self, outcome)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(self._noted or Outcome.FAILED)


class Ledger:
    """All open leases of one pair, and the sums derived from them.

    Args:
        clock: monotonic seconds.
        on_close: called with each lease right after it is closed and the counts are right again.
        on_count: called with a path and its active leases whenever they change.
    """

    def __init__(
        self,
        clock: Clock,
        on_close: Callable[[Lease], None] = lambda lease: None,
        on_count: Callable[[Path, int], None] = lambda path, count: None,
    ) -> None:
        self._clock = clock
        self._on_close = on_close
        self._on_count = on_count
        self._queued: set[Lease] = set()
        self._active: dict[Path, set[Lease]] = {path: set() for path in Path}
        self._mixed_seconds = 0.0
        self._mixed_since: float | None = None
        self.opened = 0
        self.closed: dict[Outcome, int] = dict.fromkeys(Outcome, 0)

    def open(self) -> Lease:
        """Accept a request: a new lease in state queued."""
        lease = Lease(self, self._clock())
        self._queued.add(lease)
        self.opened += 1
        return lease

    @property
    def n(self) -> int:
        """N: requests in flight, queued and active on both paths."""
        return len(self._queued) + self.active

    @property
    def queued(self) -> int:
        """Requests waiting in the router's queue."""
        return len(self._queued)

    @property
    def active(self) -> int:
        """Requests sent to an engine and not finished, on both paths."""
        return sum(map(len, self._active.values()))

    def active_on(self, path: Path) -> int:
        """Requests sent to the engine of `path` and not finished."""
        return len(self._active[path])

    @property
    def mixed(self) -> bool:
        """True while both engines have requests in flight."""
        return all(self._active.values())

    def mixed_seconds(self) -> float:
        """Seconds so far during which the pair was mixed."""
        since = self._mixed_since
        return self._mixed_seconds + (self._clock() - since if since is not None else 0.0)

    def open_leases(self) -> tuple[Lease, ...]:
        """A copy of all open leases, for a drain that has to end them and for tests."""
        return (*self._queued, *(lease for leases in self._active.values() for lease in leases))

    def _start(self, lease: Lease, path: Path) -> None:
        if lease not in self._queued:
            raise LedgerError("only a queued lease can start")
        self._queued.discard(lease)
        lease.path = path
        lease.started_at = self._clock()
        self._active[path].add(lease)
        self._on_count(path, len(self._active[path]))
        self._note_mixed()

    def _move(self, lease: Lease, path: Path) -> None:
        if lease.path is None or lease not in self._active[lease.path]:
            raise LedgerError("only an active lease can move")
        origin = lease.path
        self._active[origin].discard(lease)
        lease.path = path
        self._active[path].add(lease)
        for each in (origin, path):
            self._on_count(each, len(self._active[each]))
        self._note_mixed()

    def _close(self, lease: Lease, outcome: Outcome) -> bool:
        if not lease.is_open:
            return False
        lease.outcome = outcome
        lease.closed_at = self._clock()
        self._queued.discard(lease)
        if lease.path is not None:
            self._active[lease.path].discard(lease)
            self._on_count(lease.path, len(self._active[lease.path]))
        self.closed[outcome] += 1
        self._note_mixed()
        self._on_close(lease)
        return True

    def _note_mixed(self) -> None:
        if self.mixed == (self._mixed_since is not None):
            return
        now = self._clock()
        if self._mixed_since is None:
            self._mixed_since = now
        else:
            self._mixed_seconds += now - self._mixed_since
            self._mixed_since = None
