"""Taking up a changed configuration while requests run.

All or nothing: a file with any fault changes nothing and is reported; a good one replaces every value
that can change in a running router at once. Leases, open streams, the policy's memory and the
engines' health stay. What needs a restart is named in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger

from router.config import Config, ConfigError, resolved
from router.observe.reloads import ReloadMetrics

# Sections and keys that are read once, when sockets are opened and engines are looked up.
NEEDS_RESTART = (
    "server.host",
    "server.port",
    "admin",
    "pairs",
    "tracing",
    "timeouts.client_header",
    "timeouts.keep_alive",
)

POLL = 0.5

Stamp = tuple[int, int, int] | None


class Reloader:
    """Watches one configuration file and takes up what is in it.

    Args:
        path: the file.
        config: what is in force.
        load: reads the file; raises ConfigError.
        apply: puts a configuration in force.
        metrics: told of every try.
        log: told what changed, key by key, or what is wrong.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        load: Callable[[], Config],
        apply: Callable[[Config], None],
        metrics: ReloadMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._path = path
        self._config = config
        self._load = load
        self._apply = apply
        self._metrics = metrics
        self._log = log

    def reload(self) -> bool:
        """Read the file now. False, and nothing changed, if it cannot be used."""
        try:
            config = self._load()
        except ConfigError as error:
            self._metrics.record(succeeded=False)
            self._log.error("configuration not taken up, the old one stays in force", problems=str(error))
            return False
        changes = dict(differences(resolved(self._config), resolved(config)))
        self._apply(config)
        self._config = config
        self._metrics.record(succeeded=True)
        self._log.info("configuration taken up", changes=changes)
        late = sorted(key for key in changes if needs_restart(key))
        if late:
            self._log.warning("these changes take effect at the next start", keys=late)
        return True

    async def watch(self) -> None:
        """Reload whenever the file has changed and has then stayed as it is for one poll."""
        taken = seen = self._stamp()
        while True:
            await asyncio.sleep(POLL)
            now = self._stamp()
            if now is not None and now == seen and now != taken:
                taken = now
                self.reload()
            seen = now

    def _stamp(self) -> Stamp:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def needs_restart(key: str) -> bool:
    """True if a change of `key` cannot be taken up by a running router."""
    return any(key == fixed or key.startswith((fixed + ".", fixed + "[")) for fixed in NEEDS_RESTART)


def differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Key paths whose values differ, each with `old → new`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from differences(old.get(name), new.get(name), f"{key}.{name}" if key else str(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{key}[{index}]")
    elif old != new:
        yield key, f"{old} → {new}"
