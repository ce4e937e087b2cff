"""From cells as they were measured to a calibration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from router.calibrate.measured import Alone, Both, Measured
from router.core.calibration import Calibration, Cell, MixedCell, PathCalibration, Workload
from router.core.words import Path

# Half-width of a 90 % interval over the standard deviation.
Z90 = 1.645


def fit(measured: Measured, group: str | None = None) -> Calibration:
    """The calibration that follows from a measurement that nothing forbids to use (`check.refusals`).

    Visits to one concurrency with one group are the repeats of a cell; groups have cells of their own, which
    the curve pools in step time, where the accept length does not matter.

    Args:
        group: only cells of this one; None: all.

    Raises:
        ValueError: an engine has no such cell, or one without a throughput above 0.
    """
    alone = [cell for cell in measured.alone if group is None or cell.group == group]
    found = Calibration(
        measured.key,
        _path(measured, Path.SPECULATIVE, alone),
        _path(measured, Path.BASELINE, alone),
        workload=_workload(alone),
    )
    found = replace(found, mixed=tuple(_mixed(each, found.accept_length) for each in measured.both))
    return replace(
        found,
        speculative=_drained(measured, found, Path.SPECULATIVE),
        baseline=_drained(measured, found, Path.BASELINE),
    )


def noise(measured: Measured) -> dict[Path, float]:
    """Relative standard deviation of a throughput within its window, by path."""
    return {path: math.sqrt(_mean((cell.spread / Z90) ** 2 for cell in measured.of(path))) for path in Path}


def _path(measured: Measured, path: Path, alone: Sequence[Alone]) -> PathCalibration:
    visits: dict[tuple[int, str], list[Alone]] = {}
    for cell in alone:
        if cell.path is path:
            visits.setdefault((cell.concurrency, cell.group), []).append(cell)
    return PathCalibration(
        tuple(_cell(concurrency, visits[concurrency, group]) for concurrency, group in sorted(visits)),
        measured.prefill_seconds_per_token.get(path, 0.0),
        max_running_requests=measured.max_running_requests.get(path),
    )


def _cell(concurrency: int, visits: Sequence[Alone]) -> Cell:
    gains = tuple(visit.accept_length for visit in visits if visit.accept_length is not None)
    if visits[0].path is Path.BASELINE:
        gains = ()
    return Cell(concurrency, tuple(visit.tokens_per_second for visit in visits), gains)


def _mixed(both: Both, accept_length: float) -> MixedCell:
    """A mixed cell at the sweep's accept length, for it is compared with engines alone that have that."""
    gained = 1.0 if both.accept_length is None else accept_length / both.accept_length
    return MixedCell(both.baseline, both.speculative, both.baseline_rate, both.speculative_rate * gained)


def _workload(alone: Sequence[Alone]) -> Workload:
    uncached = _mean(max(0.0, cell.prompt_tokens - cell.cached_tokens) for cell in alone)
    return Workload(uncached, max(1.0, _mean(cell.output_tokens for cell in alone)))


def _drained(measured: Measured, found: Calibration, path: Path) -> PathCalibration:
    """With its drains.

    A switch drains one engine while the other takes the new requests, so drains of an engine that was alone
    count only where no others were seen, and as much longer as the engine is slower then.
    """
    drains = [
        each.drain_seconds
        for each in measured.both
        if each.drained is path and each.drain_seconds is not None
    ]
    if not drains:
        share = found.mixed_fraction(path)
        drains = [each.drain_seconds / share for each in measured.of(path) if each.drain_seconds is not None]
    return replace(found.path(path), drain_seconds=tuple(drains))


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
