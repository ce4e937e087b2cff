"""What an operator may change in a running router. Every change is one line in the log."""

from __future__ import annotations

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from router.core.pair import Pair, Pin
from router.core.words import Path

MAX_PIN_SECONDS = 7 * 24 * 3600.0


class Impossible(Exception):
    """A change that cannot be made; the message is for the operator."""


class Operator:
    """Changes one pair.

    Args:
        pair: what is changed.
        reload: reads the configuration file again; False if it cannot be used. None: there is no file.
        log: the audit trail.
    """

    def __init__(
        self, pair: Pair, reload: Callable[[], Callable[[], bool] | None], log: FilteringBoundLogger
    ) -> None:
        self._pair = pair
        self._reload = reload
        self._log = log.bind(audit=True, pair=pair.name)

    def pin(self, path: Path, reason: str, seconds: float | None) -> None:
        """Send new requests to `path` for `seconds` (None: until unpinned), whatever the policy says.

        Raises:
            Impossible: the pair has no such engine.
        """
        self._known(path)
        until = None if seconds is None else self._pair.now() + seconds
        self._pair.pin = Pin(path, reason, until)
        self._log.info("pinned", path=path.value, why=reason, seconds=seconds)
        self._pair.evaluate()

    def unpin(self) -> bool:
        """Let the policy decide again; False if nothing was pinned."""
        was, self._pair.pin = self._pair.pin, None
        if was is not None:
            self._log.info("unpinned", path=was.path.value)
            self._pair.evaluate()
        return was is not None

    def drain(self, path: Path, *, drained: bool) -> None:
        """Keep new requests from the engine of `path`, or let them come again. Open ones finish.

        Raises:
            Impossible: the pair has no such engine.
        """
        self._known(path)
        self._pair.engines[path].drained = drained
        self._log.info("engine drained" if drained else "engine undrained", path=path.value)
        self._pair.evaluate()

    def reload(self) -> None:
        """Take up the configuration file.

        Raises:
            Impossible: there is none, or it has a fault (which the log names).
        """
        reload = self._reload()
        if reload is None:
            raise Impossible("This router was not started from a file.")
        self._log.info("reload asked for")
        if not reload():
            raise Impossible("The file cannot be used; the log names the fault. The old configuration stays.")

    def _known(self, path: Path) -> None:
        if path not in self._pair.engines:
            raise Impossible(f"This pair has no {path.value} engine.")
