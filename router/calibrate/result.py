"""A measurement, what follows from it, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from router.calibrate.check import refusals, warnings
from router.calibrate.derive import RESAMPLES, Derived, derive
from router.calibrate.measured import Measured
from router.calibrate.verdict import Verdict, judge, refused


@dataclass(frozen=True, slots=True)
class Result:
    """What `calibrate` has to say.

    Attributes:
        derived: None if the measurement must not be used.
        warnings: see `check.warnings`.
    """

    measured: Measured
    derived: Derived | None
    verdict: Verdict
    warnings: tuple[str, ...]


def assess(measured: Measured, draw: Callable[[], float], resamples: int = RESAMPLES) -> Result:
    """The verdict on a measurement, whatever is in it.

    Args:
        draw: uniform numbers in [0, 1), for the bootstrap.
        resamples: how many sweeps the intervals rest on.
    """
    why = refusals(measured)
    said = warnings(measured)
    if why:
        return Result(measured, None, refused(why), said)
    derived = derive(measured, draw, resamples)
    return Result(measured, derived, judge(derived), said)
