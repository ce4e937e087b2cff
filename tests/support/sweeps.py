"""Sweeps of real and made-up engines, as calibrations."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.calibration import Calibration, Cell, Key, MixedCell, PathCalibration, Workload
from router.core.words import Placement

# An H200 with a 4 B model: aggregate tokens per second by concurrency, each server alone. Two workloads on
# two machines; with speculation the accept length of the cell as well.
UNSEEN_BASELINE = {
    1: 333.0,
    2: 640.0,
    4: 1245.0,
    8: 2442.0,
    16: 4573.0,
    32: 8248.0,
    64: 14023.0,
    128: 20096.0,
    256: 26382.0,
}
UNSEEN_EAGLE = {
    1: (338.0, 1.89),
    2: (538.0, 1.98),
    4: (1479.0, 1.91),
    8: (2377.0, 1.95),
    16: (4601.0, 1.96),
    32: (7968.0, 1.95),
    64: (12290.0, 1.97),
    128: (15752.0, 1.92),
    256: (20732.0, 1.97),
}
SEEN_BASELINE = {
    1: 336.0,
    2: 643.0,
    4: 1226.0,
    8: 2313.0,
    16: 3808.0,
    32: 6721.0,
    64: 10547.0,
    128: 14844.0,
}
SEEN_EAGLE = {
    1: (445.0, 2.16),
    2: (836.0, 2.20),
    4: (1466.0, 2.08),
    8: (2707.0, 2.08),
    16: (3019.0, 2.16),
    32: (4689.0, 2.07),
    64: (8991.0, 2.09),
    128: (12434.0, 2.09),
}
# Both at once: concurrency and tokens per second of baseline and EAGLE-3. The machine of the unseen workload.
TOGETHER = (
    MixedCell(1, 1, 163.0, 260.0),
    MixedCell(8, 8, 1237.0, 1721.0),
    MixedCell(32, 32, 4203.0, 5169.0),
    MixedCell(64, 64, 7424.0, 8151.0),
    MixedCell(128, 128, 11419.0, 10855.0),
    MixedCell(64, 8, 7218.0, 1759.0),
    MixedCell(8, 64, 1242.0, 7788.0),
)


def sweep(
    baseline: Mapping[int, float],
    eagle: Mapping[int, tuple[float, float]],
    *,
    mixed: tuple[MixedCell, ...] = (),
    placement: Placement = Placement.SHARED,
    workload: Workload | None = None,
) -> Calibration:
    """One repeat of each cell."""
    return Calibration(
        Key(placement=placement),
        PathCalibration(tuple(Cell(n, (rate,), (gain,)) for n, (rate, gain) in eagle.items())),
        PathCalibration(tuple(Cell(n, (rate,)) for n, rate in baseline.items())),
        mixed,
        workload or Workload(),
    )


def linear(
    crossover: float, gain: float = 2.0, *, step: float = 0.01, slope: float = 0.0002, limit: int = 128
) -> Calibration:
    """Engines whose steps rise linearly and which tie at `crossover` requests at this accept length.

    The baseline's step is `step + slope·n` seconds; the cycle is 20 % dearer in the fixed part and as much
    dearer per request as the crossover wants.
    """
    tie = gain * (step + slope * crossover)
    fixed = 1.2 * step
    dearer = (tie - fixed) / crossover
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256) if n <= limit]
    return sweep(
        {n: n / (step + slope * n) for n in sizes},
        {n: (n * gain / (fixed + dearer * n), gain) for n in sizes},
    )
