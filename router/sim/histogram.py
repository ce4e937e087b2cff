"""A Prometheus histogram, no more than the exposition needs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


def latency_buckets(low: float, high: float) -> tuple[float, ...]:
    """Bounds in the 1-2-5 series from `low` to `high` seconds."""
    bounds = []
    decade = low
    while decade <= high:
        bounds += [round(decade * step, 9) for step in (1, 2, 5)]
        decade *= 10
    return tuple(bound for bound in bounds if bound <= high)


class Histogram:
    """Counts observations by upper bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def observe(self, value: float, times: int = 1) -> None:
        """Add `value`, `times` over."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times
        self.count += times

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """(`le` label, observations up to it), ending with +Inf."""
        total = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            yield bound, total
