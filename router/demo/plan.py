"""What a demonstration of a profile looks like: watermarks, wave and length of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from router.demo.verdict import Comparison, compare
from router.demo.wave import Wave
from router.sim.speed import Profile

# Where a profile has no crossover nothing can be derived; these show both switches with few users.
FALLBACK_HIGH = 8
FALLBACK_LOW = 3
# Shorter than a router's defaults (10 s, 2 s), so that a minute shows switches both ways.
DWELL = 3.0
SMOOTHING = 1.0
PERIOD = 30.0
# An answer takes about this long near the crossover, which bounds how long a switch drains.
ANSWER_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Plan:
    """A demonstration.

    Attributes:
        profile: of the engines.
        comparison: what its speed model says.
        high, low: watermarks of the router's policy, in requests in flight.
        dwell, smoothing: of the policy, in seconds.
        wave: users over time.
        answer_tokens: median length of an answer.
    """

    profile: Profile
    comparison: Comparison
    high: int
    low: int
    dwell: float
    smoothing: float
    wave: Wave
    answer_tokens: int

    @property
    def derived(self) -> bool:
        """True if the watermarks come from the profile's crossover."""
        return self.comparison.crossover is not None


def make_plan(profile: Profile) -> Plan:
    """The demonstration of a profile."""
    comparison = compare(profile)
    high, low = watermarks(comparison.crossover)
    slower = min(profile.speculative.tokens_per_second(high), profile.baseline.tokens_per_second(high))
    return Plan(
        profile=profile,
        comparison=comparison,
        high=high,
        low=low,
        dwell=DWELL,
        smoothing=SMOOTHING,
        # The trough is below the low watermark and the peak well above the high one, or nothing would switch.
        wave=Wave(max(1, low // 2), high + max(3, high // 2), PERIOD),
        answer_tokens=max(8, round(ANSWER_SECONDS * slower / high)),
    )


def watermarks(crossover: int | None) -> tuple[int, int]:
    """(high, low) by the rule of thumb: up at 1.25·N*, back at 0.5·N* or below."""
    if crossover is None:
        return FALLBACK_HIGH, FALLBACK_LOW
    return max(2, math.ceil(1.25 * crossover)), max(1, crossover // 2)
