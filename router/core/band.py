"""The band around the crossover: where to go up, where to come back, without a limit cycle.

In a closed loop N falls by itself after an up-switch at N_hi: the baseline takes the same tokens per second
with fewer requests in flight, N_eq, where T_B(N_eq) = T_S(N_hi). A low watermark at or above N_eq would
send the load straight back, for ever. So low ≤ N_eq − z·√N_eq, the noise of a Poisson load below it, and
at most half the crossover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from router.core.calibration import Calibration, Crossover, Reach
from router.core.words import Path

UP = 1.25
DOWN = 0.5
Z = 2.0
# An idle pair has a smoothed N near 0 and must be able to come back.
LEAST_LOW = 0.5


@dataclass(frozen=True, slots=True)
class Band:
    """Watermarks at one accept length.

    Attributes:
        crossover: N* and where it comes from.
        high: N at or above which new requests go to baseline; None where speculation always wins.
        low: smoothed N at or below which they come back; None where it never wins. low < high.
        settles_at: N_eq; None without a crossover.
    """

    crossover: Crossover
    high: float | None
    low: float | None
    settles_at: float | None = None


def band(calibration: Calibration, accept_length: float, z: float = Z, mix: float = 0.0) -> Band:
    """The watermarks at this accept length (of an engine as fast as calibrated) and mix of prompts."""
    found = calibration.crossover(accept_length, mix)
    if found.reach is Reach.NONE:
        return Band(found, 1.0, None)
    if found.reach is Reach.ALWAYS:
        return Band(found, None, float(calibration.limit))
    high = UP * found.n
    settled = settles_at(calibration, accept_length, high, mix)
    low = min(DOWN * found.n, settled - z * math.sqrt(settled))
    return Band(found, high, max(LEAST_LOW, low), settled)


def settles_at(calibration: Calibration, accept_length: float, high: float, mix: float = 0.0) -> float:
    """N_eq: the least n at which the baseline gives what speculation gives at `high`; at most `high`."""
    wanted = calibration.tokens_per_second(Path.SPECULATIVE, high, accept_length, mix)
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if calibration.tokens_per_second(Path.BASELINE, middle, None, mix) < wanted:
            low = middle
        else:
            high = middle
    return high
