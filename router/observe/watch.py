"""Telling the log when an engine's standing changes, whatever the evidence came from."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from router.core.health import Standing
from router.core.pair import Pair
from router.core.words import BreakerState, Path


class HealthWatch:
    """Logs changes of standing and breaker of a pair's engines, and nothing twice.

    `check` is cheap; call it after probes, after failures and by the timer that evaluates the pair.
    """

    def __init__(self, pair: Pair, log: FilteringBoundLogger) -> None:
        self._pair = pair
        self._log = log
        self._last: dict[Path, tuple[bool, Standing, BreakerState]] = dict.fromkeys(
            pair.engines, (False, Standing.GOOD, BreakerState.CLOSED)
        )

    def check(self, now: float) -> None:
        """Log what has changed up to `now`, monotonic seconds."""
        for path, engine in self._pair.engines.items():
            seen = (engine.seen_up, engine.standing(now), engine.breaker.state(now))
            if seen == self._last[path]:
                continue
            _, last_standing, _ = self._last[path]
            self._last[path] = seen
            _, standing, breaker = seen
            fields = {"pair": self._pair.name, "path": path.value, "breaker": breaker.value}
            if standing is Standing.GOOD:
                self._log.info("engine up", **fields)
            elif breaker is BreakerState.HALF_OPEN:
                self._log.info("engine on trial", **fields)
            elif standing is not last_standing or breaker is BreakerState.OPEN:
                text = "engine down" if standing is Standing.DEAD else "engine doubtful"
                self._log.warning(text, **fields)
