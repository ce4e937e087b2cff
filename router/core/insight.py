"""What the calibrated policy reckons with at this moment, for status and metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass

from router.core.calibrated import CalibratedPolicy
from router.core.marginal import MarginalPolicy
from router.core.policy import Policy, PolicyState
from router.core.words import Path


@dataclass(frozen=True, slots=True)
class Insight:
    """Numbers behind the next decision.

    Attributes:
        calibrated_crossover: N* as calibrated.
        crossover, high, low: N* and watermarks of now; see `Band`.
        accept_length: tokens per cycle that are reckoned with.
        accept_length_age: seconds since one was measured; None if never.
        break_even: accept length that speculation needs to tie at the present load.
        scales: how many times slower than calibrated each engine is.
    """

    calibrated_crossover: float
    crossover: float
    high: float | None
    low: float | None
    accept_length: float
    accept_length_age: float | None
    break_even: float
    scales: dict[Path, float]


def insight(policy: Policy, state: PolicyState, n: int, now: float) -> Insight | None:
    """The numbers, if the policy is calibrated and has been asked before."""
    rules = policy.rules if isinstance(policy, MarginalPolicy) else policy
    learned = state.learned
    if not isinstance(rules, CalibratedPolicy) or learned is None or learned.band is None:
        return None
    calibration, marks = rules.calibration, learned.band
    scales = {path: learned.scale(path).factor for path in Path}
    slower = scales[Path.SPECULATIVE] / scales[Path.BASELINE]
    hurdle = rules.tariff.hurdle(n, learned.effective, learned.mix)
    return Insight(
        calibration.crossover(calibration.accept_length).n,
        marks.crossover.n,
        marks.high,
        marks.low,
        rules.accept_length(learned, now),
        learned.accept.age(now),
        math.exp(hurdle) * slower,
        scales,
    )
