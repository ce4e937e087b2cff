"""What follows from a calibration: crossovers with intervals, gains by load, what working together costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from router.calibrate.check import LEAST_IN_COMMON
from router.calibrate.fit import fit, noise
from router.calibrate.measured import Measured
from router.core.band import Band, band
from router.core.bootstrap import Interval, break_even_interval, cell_errors, interval_of, sweeps
from router.core.calibration import Calibration, Crossover, MixedCell, quantile
from router.core.words import Path

RESAMPLES = 400
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0)
_MOST_LENGTHS = 24


@dataclass(frozen=True, slots=True)
class AtLength:
    """Where speculation stops to pay at one accept length."""

    accept_length: float
    interval: Interval
    band: Band

    @property
    def crossover(self) -> Crossover:
        """N* and its kind."""
        return self.band.crossover


@dataclass(frozen=True, slots=True)
class Load:
    """Both engines at one load that both were measured at, as fitted, at the sweep's accept length.

    Attributes:
        n: requests in flight.
        speculative, baseline: tokens per second.
        break_even: a*(n), with its 90 % interval.
    """

    n: int
    speculative: float
    baseline: float
    break_even: float
    break_even_within: tuple[float, float]

    @property
    def gain(self) -> float:
        """Of speculation over the baseline, relative; negative: a loss."""
        return self.speculative / self.baseline - 1.0


@dataclass(frozen=True, slots=True)
class Together:
    """Both engines at once.

    Attributes:
        keeps: the share of its own speed that each has left.
        alone: tokens per second that each would give alone at as many requests.
        beyond: these are more requests than were measured, so that `alone` is extrapolated.
    """

    cell: MixedCell
    keeps: Mapping[Path, float]
    alone: Mapping[Path, float]
    beyond: bool

    @property
    def total(self) -> float:
        """Tokens per second of both."""
        return self.cell.baseline_rate + self.cell.speculative_rate

    @property
    def loss(self) -> float:
        """What working together costs against the better engine alone, relative; negative: it gains."""
        return 1.0 - self.total / max(self.alone.values())


@dataclass(frozen=True, slots=True)
class Group:
    """One group of requests.

    Attributes:
        at: the pooled curves at its accept length.
        own: N* of its own cells alone; None where they are too few.
    """

    name: str
    at: AtLength
    own: Crossover | None


@dataclass(frozen=True, slots=True)
class Noisy:
    """How far one engine's cells at one concurrency are off the curve, as a relative deviation."""

    path: Path
    concurrency: int
    error: float


@dataclass(frozen=True, slots=True)
class Derived:
    """Everything that a verdict and a report rest on.

    Attributes:
        at: at the sweep's accept length.
        lengths: over a grid of accept lengths around the break-even.
        errors: all cells whose error can be told, the largest first.
        noise: see `fit.noise`.
    """

    calibration: Calibration
    at: AtLength
    lengths: tuple[AtLength, ...]
    loads: tuple[Load, ...]
    groups: tuple[Group, ...]
    together: tuple[Together, ...]
    errors: tuple[Noisy, ...]
    noise: Mapping[Path, float]

    def best_alone(self, n: int, group: str) -> float:
        """Tokens per second of the engine that is faster alone at n requests of this group."""
        lengths = {each.name: each.at.accept_length for each in self.groups}
        length = lengths.get(group, self.at.accept_length)
        return max(self.calibration.tokens_per_second(path, n, length) for path in Path)


def derive(measured: Measured, draw: Callable[[], float], resamples: int = RESAMPLES) -> Derived:
    """All of it, from a measurement that nothing forbids to use.

    Args:
        draw: uniform numbers in [0, 1), for the bootstrap.
    """
    calibration = fit(measured)
    within = noise(measured)
    made_up = sweeps(calibration, draw, resamples, within)

    def at(length: float) -> AtLength:
        return AtLength(length, interval_of(made_up, length), band(calibration, length))

    return Derived(
        calibration,
        at(calibration.accept_length),
        tuple(at(length) for length in _grid(calibration)),
        tuple(_load(calibration, made_up, n) for n in _common(measured)),
        _groups(measured, at),
        tuple(_together(calibration, cell) for cell in calibration.mixed),
        _errors(calibration),
        within,
    )


def _grid(calibration: Calibration) -> tuple[float, ...]:
    """Accept lengths from a little below the lowest break-even to a little above the highest."""
    least = min(*calibration.break_even, calibration.accept_length)
    most = max(*calibration.break_even, calibration.accept_length)
    step = next((each for each in _STEPS if (most - least) / each <= _MOST_LENGTHS - 4), (most - least) / 20)
    first, last = math.floor(least / step) - 1, math.ceil(most / step) + 1
    return tuple(round(place * step, 6) for place in range(first, last + 1) if place * step >= 1.0)


def _common(measured: Measured) -> list[int]:
    return sorted(measured.concurrencies(Path.SPECULATIVE) & measured.concurrencies(Path.BASELINE))


def _load(calibration: Calibration, made_up: Sequence[Calibration], n: int) -> Load:
    return Load(
        n,
        calibration.tokens_per_second(Path.SPECULATIVE, n),
        calibration.tokens_per_second(Path.BASELINE, n),
        calibration.break_even_at(n),
        break_even_interval(made_up, n),
    )


def _groups(measured: Measured, at: Callable[[float], AtLength]) -> tuple[Group, ...]:
    found = []
    for name in measured.groups:
        gains = [
            cell.accept_length
            for cell in measured.of(Path.SPECULATIVE)
            if cell.group == name and cell.accept_length is not None
        ]
        if gains:
            length = quantile(gains, 0.5)
            found.append(Group(name, at(length), _own(measured, name, length)))
    return tuple(found)


def _own(measured: Measured, name: str, length: float) -> Crossover | None:
    seen = [{cell.concurrency for cell in measured.of(path) if cell.group == name} for path in Path]
    if len(seen[0] & seen[1]) < LEAST_IN_COMMON:
        return None
    return fit(measured, name).crossover(length)


def _together(calibration: Calibration, cell: MixedCell) -> Together:
    total = cell.baseline + cell.speculative
    alone = {path: calibration.tokens_per_second(path, total) for path in Path}
    return Together(
        cell,
        {
            Path.BASELINE: cell.baseline_rate / calibration.tokens_per_second(Path.BASELINE, cell.baseline),
            Path.SPECULATIVE: cell.speculative_rate
            / calibration.tokens_per_second(Path.SPECULATIVE, cell.speculative),
        },
        alone,
        total > calibration.limit,
    )


def _errors(calibration: Calibration) -> tuple[Noisy, ...]:
    squares: dict[tuple[Path, int], list[float]] = {}
    for path in Path:
        for cell in calibration.path(path).cells:
            for error in cell_errors(calibration.path(path), cell):
                squares.setdefault((path, cell.concurrency), []).append(error * error)
    found = [
        Noisy(path, n, math.expm1(math.sqrt(sum(each) / len(each)))) for (path, n), each in squares.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.error))
