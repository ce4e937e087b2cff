"""Metrics of configuration reloads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from router.observe.metrics import PREFIX


class ReloadMetrics:
    """Counts reloads and says whether the last one worked; an alert watches the gauge."""

    def __init__(self, registry: CollectorRegistry) -> None:
        tries = Counter(
            f"{PREFIX}_config_reloads", "Reloads of the configuration.", ("outcome",), registry=registry
        )
        self._tries = {True: tries.labels("ok"), False: tries.labels("failed")}
        self._last = Gauge(
            f"{PREFIX}_config_last_reload_successful",
            "1 if the configuration file could be used when it was last read.",
            registry=registry,
        )
        self._last.set(1)

    def record(self, *, succeeded: bool) -> None:
        """A reload ended."""
        self._tries[succeeded].inc()
        self._last.set(succeeded)
