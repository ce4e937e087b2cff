"""How sure a crossover is: a bootstrap over the measured cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from router.core.calibration import Calibration, Cell, PathCalibration, Reach, quantile


@dataclass(frozen=True, slots=True)
class Interval:
    """Where N* lies at one accept length.

    Attributes:
        low, high: bounds of N*; 0 stands for `none`, the largest concurrency measured for `always`.
        none, always: shares of the resamples that ended so.
        unknown: the interval spans the whole range: the sweep does not say where the crossover is.
    """

    low: float
    high: float
    none: float
    always: float

    @property
    def unknown(self) -> bool:
        """True if both ends are open."""
        return self.none > 0.05 and self.always > 0.05


def interval(
    calibration: Calibration,
    accept_length: float,
    draw: Callable[[], float],
    resamples: int = 400,
    confidence: float = 0.9,
) -> Interval:
    """The interval of N*(accept_length).

    Each repeat is drawn anew around the fitted curve with the error of another one. The error of a cell that
    was measured once is what the curve through the other cells misses it by; of repeats, their distance from
    the curve.

    Args:
        draw: uniform numbers in [0, 1).
        resamples: how many sweeps are made up.
        confidence: share of them inside the interval.
    """
    found = [_resampled(calibration, draw).crossover(accept_length) for _ in range(resamples)]
    tail = (1.0 - confidence) / 2
    places = [each.n for each in found]
    reaches = [each.reach for each in found]
    return Interval(
        quantile(places, tail),
        quantile(places, 1.0 - tail),
        reaches.count(Reach.NONE) / resamples,
        reaches.count(Reach.ALWAYS) / resamples,
    )


def _resampled(calibration: Calibration, draw: Callable[[], float]) -> Calibration:
    return replace(
        calibration,
        speculative=_resampled_path(calibration.speculative, draw),
        baseline=_resampled_path(calibration.baseline, draw),
    )


def _resampled_path(path: PathCalibration, draw: Callable[[], float]) -> PathCalibration:
    errors = [error for cell in path.cells for error in _errors(path, cell)]

    def redrawn(cell: Cell) -> Cell:
        step = path.curve.at(cell.concurrency)
        repeats = len(cell.tokens_per_second)
        steps = [step * math.exp(errors[int(draw() * len(errors))]) for _ in range(repeats)]
        return Cell(cell.concurrency, tuple(cell.concurrency / seconds for seconds in steps))

    return replace(path, cells=tuple(redrawn(cell) for cell in path.cells))


def _errors(path: PathCalibration, cell: Cell) -> list[float]:
    """Logarithms of measured over fitted step times of one cell."""
    others = tuple(other for other in path.cells if other is not cell)
    alone = len(cell.tokens_per_second) == 1 and len(others) > 1
    curve = replace(path, cells=others).curve if alone else path.curve
    return [math.log(seconds / curve.at(cell.concurrency)) for seconds in cell.steps()]
