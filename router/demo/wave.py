"""How many users the load has at each moment."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wave:
    """A number of users that rises from `trough` to `peak` and falls back once in each `period`.

    A raised cosine: it begins and ends at the trough and lingers there and at the peak, which gives both
    switches time to happen. Raises ValueError unless 0 < trough < peak and period > 0.
    """

    trough: int
    peak: int
    period: float

    def __post_init__(self) -> None:
        if not 0 < self.trough < self.peak:
            raise ValueError(f"0 < trough < peak is required, not trough={self.trough}, peak={self.peak}")
        if self.period <= 0:
            raise ValueError(f"the period must be above 0 seconds, not {self.period}")

    def users(self, at: float) -> int:
        """Users at `at` seconds from the beginning."""
        raised = (1 - math.cos(2 * math.pi * at / self.period)) / 2
        return round(self.trough + (self.peak - self.trough) * raised)
