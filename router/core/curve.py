"""Step time by batch size, fitted to measurements: monotone, in seconds.

Everything is interpolated in step time and never in tokens per second: a decode step reads the weights
once and then does work for each request, so its time is close to linear between two batch sizes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class StepCurve:
    """Seconds of a step by batch size: piecewise linear through `points`, sorted, never falling.

    Below the first point its value holds, for a step has a floor. Above the last one the slope of the last
    segment goes on; a curve of one point is flat.
    """

    points: tuple[tuple[int, float], ...]
    _sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.points or self.points[0][0] < 1 or self.points[0][1] <= 0:
            raise ValueError("a step curve needs batch sizes from 1 and step times above 0")
        if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(self.points)):
            raise ValueError("batch sizes must rise and step times must not fall")
        object.__setattr__(self, "_sizes", tuple(size for size, _ in self.points))

    @property
    def last(self) -> int:
        """The largest batch size that was measured."""
        return self.points[-1][0]

    def at(self, batch: float) -> float:
        """Seconds of a step with `batch` requests in it."""
        points = self.points
        if batch <= points[0][0] or len(points) == 1:
            return points[0][1]
        right = min(bisect_right(self._sizes, batch), len(points) - 1)
        (x0, y0), (x1, y1) = points[right - 1], points[right]
        return y0 + (y1 - y0) / (x1 - x0) * (batch - x0)


def fit(samples: Iterable[tuple[int, float]]) -> StepCurve:
    """The never falling curve that is nearest to the samples (batch size, seconds), in relative terms.

    Repeats of a size are pooled as their geometric mean, then neighbours that fall are pooled, weighted by
    their number (isotonic regression of the logarithm): errors of measured times are relative ones.

    Raises:
        ValueError: no sample, or one that is not above 0.
    """
    by_size: dict[int, list[float]] = {}
    for size, seconds in samples:
        if not seconds > 0:
            raise ValueError(f"a step time must be above 0 seconds, not {seconds}")
        by_size.setdefault(size, []).append(math.log(seconds))
    blocks: list[tuple[list[int], float, int]] = []  # (sizes, sum of logarithms, how many)
    for size in sorted(by_size):
        block = ([size], sum(by_size[size]), len(by_size[size]))
        while blocks and blocks[-1][1] / blocks[-1][2] > block[1] / block[2]:
            sizes, total, count = blocks.pop()
            block = (sizes + block[0], total + block[1], count + block[2])
        blocks.append(block)
    return StepCurve(
        tuple((size, math.exp(total / count)) for sizes, total, count in blocks for size in sizes)
    )
