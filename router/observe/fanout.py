"""One observer made of several, which keeps what goes wrong in them away from requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from router.core.events import Decision, Observer, RequestRecord
from router.core.failure import Kind
from router.core.policy import Switch
from router.core.words import Path, Rejection


class Fanout:
    """An `Observer` that tells all of `observers`. One that raises is logged once and told on.

    Args:
        observers: in the order in which they are told.
        log: where an observer's fault goes.
    """

    def __init__(self, observers: Sequence[Observer], log: FilteringBoundLogger) -> None:
        self._observers = tuple(observers)
        self._log = log
        self._faulty: set[str] = set()

    def on_decision(self, decision: Decision) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.on_decision(decision))

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.on_retry(origin, target, kind))

    def on_switch(self, switch: Switch) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.on_switch(switch))

    def on_rejected(self, reason: Rejection) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.on_rejected(reason))

    def on_finished(self, record: RequestRecord) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.on_finished(record))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                name = type(observer).__name__
                if name not in self._faulty:
                    self._faulty.add(name)
                    self._log.exception(
                        "an observer failed; its later failures are not logged", observer=name
                    )
