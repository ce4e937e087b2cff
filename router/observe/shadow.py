"""What a policy that only looks on would have done."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter
from structlog.typing import FilteringBoundLogger

from router.core.policy import Switch
from router.core.words import Path, SwitchReason
from router.observe.metrics import PREFIX

# What decides in a shadow is load alone, or an engine that cannot serve.
_REASONS = (SwitchReason.HIGH, SwitchReason.LOW, SwitchReason.FAILOVER, SwitchReason.RECOVERED)


class ShadowMetrics:
    """Counts and logs the switches that a shadow policy would have made.

    Args:
        registry: where the metric is registered.
        pair: name of the pair, a label value.
        log: one line for each of them, at level info.
    """

    def __init__(self, registry: CollectorRegistry, pair: str, log: FilteringBoundLogger) -> None:
        self._pair = pair
        self._log = log
        self._switches = Counter(
            f"{PREFIX}_shadow_switches",
            "Changes of the active path that policy.shadow would have made, and why.",
            ("pair", "from", "to", "reason"),
            registry=registry,
        )
        for origin in Path:
            for reason in _REASONS:
                self._switches.labels(pair, origin, origin.other, reason)

    def on_switch(self, switch: Switch) -> None:
        """The shadow would have switched."""
        self._switches.labels(self._pair, switch.origin, switch.target, switch.reason).inc()
        self._log.info(
            "the shadow policy would have switched",
            pair=self._pair,
            origin=switch.origin.value,
            target=switch.target.value,
            n=switch.n,
            reason=switch.reason.value,
        )
