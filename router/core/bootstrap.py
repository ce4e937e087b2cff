"""How sure a crossover is: a bootstrap over the measured cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from router.core.calibration import Calibration, Cell, PathCalibration, Reach, quantile
from router.core.words import Path


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
    """The interval of N*(accept_length); see `sweeps` and `interval_of`."""
    return interval_of(sweeps(calibration, draw, resamples), accept_length, confidence)


def interval_of(made_up: Sequence[Calibration], accept_length: float, confidence: float = 0.9) -> Interval:
    """The interval of N*(accept_length) over sweeps that `sweeps` made up.

    Args:
        made_up: at least one.
        confidence: share of them inside the interval.
    """
    found = [each.crossover(accept_length) for each in made_up]
    low, high = _between([each.n for each in found], confidence)
    reaches = [each.reach for each in found]
    return Interval(
        low, high, reaches.count(Reach.NONE) / len(found), reaches.count(Reach.ALWAYS) / len(found)
    )


def break_even_interval(
    made_up: Sequence[Calibration], n: float, confidence: float = 0.9
) -> tuple[float, float]:
    """Bounds of the break-even accept length at n requests; arguments as for `interval_of`."""
    return _between([each.break_even_at(n) for each in made_up], confidence)


def _between(values: Sequence[float], confidence: float) -> tuple[float, float]:
    tail = (1.0 - confidence) / 2
    return quantile(values, tail), quantile(values, 1.0 - tail)


def sweeps(
    calibration: Calibration,
    draw: Callable[[], float],
    resamples: int = 400,
    noise: Mapping[Path, float] | None = None,
) -> tuple[Calibration, ...]:
    """Sweeps that could have been measured as well: every repeat is drawn anew around the fitted curve.

    It gets the error of another repeat of the same engine. The error of a cell that was measured once is
    what the curve through the other cells misses it by. The first and the last of such cells tell
    nothing, for they have neighbours on one side only. Errors of r repeats are their distances from the
    curve, times √(r / (r − 1)), since the curve follows them.

    Args:
        draw: uniform numbers in [0, 1).
        resamples: how many sweeps are made up, from 1 on.
        noise: the least relative standard deviation of a repeat, by path, where that is known from within
            the repeats: few repeats may agree by chance.
    """
    least = noise or {}
    errors = {path: _errors_of(calibration.path(path), least.get(path, 0.0)) for path in Path}

    def redrawn(path: Path) -> PathCalibration:
        return _resampled(calibration.path(path), errors[path], draw)

    return tuple(
        replace(calibration, speculative=redrawn(Path.SPECULATIVE), baseline=redrawn(Path.BASELINE))
        for _ in range(resamples)
    )


def _resampled(path: PathCalibration, errors: Sequence[float], draw: Callable[[], float]) -> PathCalibration:
    def redrawn(cell: Cell) -> Cell:
        step = path.curve.at(cell.concurrency)
        repeats = len(cell.tokens_per_second)
        steps = [step * math.exp(errors[int(draw() * len(errors))]) for _ in range(repeats)]
        return Cell(cell.concurrency, tuple(cell.concurrency / seconds for seconds in steps))

    return replace(path, cells=tuple(redrawn(cell) for cell in path.cells))


def _errors_of(path: PathCalibration, least: float) -> list[float]:
    """Logarithms of measured over fitted step times, of a standard deviation of at least `least`."""
    errors = [error for cell in path.cells for error in cell_errors(path, cell)] or [0.0]
    spread = math.sqrt(sum(error * error for error in errors) / len(errors))
    # Two values have that deviation, and their means over repeats and cells are near to normal.
    return errors if spread >= least else [-least, least]


def cell_errors(path: PathCalibration, cell: Cell) -> tuple[float, ...]:
    """What the errors of one cell are taken to be, as logarithms of the step time; see `sweeps`.

    Empty for a cell that was measured once and has no neighbour on one side.
    """
    repeats = len(cell.tokens_per_second)
    if repeats > 1:
        widened = math.sqrt(repeats / (repeats - 1))
        fitted = path.curve.at(cell.concurrency)
        return tuple(widened * math.log(seconds / fitted) for seconds in cell.steps())
    others = tuple(other for other in path.cells if other is not cell)
    sizes = [other.concurrency for other in others]
    if not sizes or not min(sizes) <= cell.concurrency <= max(sizes):
        return ()
    fitted = replace(path, cells=others).curve.at(cell.concurrency)
    return tuple(math.log(seconds / fitted) for seconds in cell.steps())
