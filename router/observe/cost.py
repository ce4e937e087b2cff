"""What sharing costs: tokens that were not generated because both engines of a shared pair were at work.

While both have requests each runs at a fraction f of its speed (on an H200 0.52 and 0.70), so an engine
that generates r tokens a second would alone have generated r / f. The difference, summed over the time the
pair was mixed, is the price of all its drains. It is an estimate: the fractions are a calibration's or the
shipped ones, the rates the engines' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from router.core.words import Path
from router.observe.metrics import PREFIX
from router.observe.state import Watched


class MixedCost(Collector):
    """Sums the estimate.

    Args:
        watched: the pair.
        fraction: share of its speed that a path's engine keeps while the other one works.
    """

    def __init__(self, watched: Watched, fraction: Callable[[Path], float]) -> None:
        self._watched = watched
        self._fraction = fraction
        self._seconds = 0.0
        self.tokens = 0.0

    def tick(self) -> None:
        """Account for the time since the last tick; call it about every 100 ms."""
        pair = self._watched.pair
        seconds = pair.ledger.mixed_seconds()
        passed, self._seconds = seconds - self._seconds, seconds
        if passed <= 0.0:
            return
        for path in pair.engines:
            rate = self._watched.tokens_per_second(path)
            if rate is not None:
                self.tokens += passed * rate * (1.0 / self._fraction(path) - 1.0)

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        lost = CounterMetricFamily(
            f"{PREFIX}_mixed_lost_tokens",
            "Tokens not generated because both engines were at work; an estimate.",
            labels=("pair",),
        )
        lost.add_metric((self._watched.pair.name,), self.tokens)
        yield lost
