"""Measurements: of real engines, of the simulation's profiles, with noise, and with faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from router.calibrate.fit import Z90
from router.calibrate.measured import Alone, Both, Measured
from router.core.calibration import Calibration, Key, MixedCell
from router.core.words import Path, Placement
from router.replay.plant import load_plant
from tests.support.sweeps import TOGETHER

GROUP = "chat"
KEY = Key("llama", "llama-eagle3", "0.5.16", "9f2c", Placement.SHARED)


def alone(
    path: Path,
    n: int,
    rate: float,
    accept_length: float | None = None,
    *,
    group: str = GROUP,
    spread: float = 0.0,
) -> Alone:
    """A visit without fault."""
    return Alone(
        path, group, n, rate, accept_length, 1.0, {}, None, spread, 0.02, n / rate, 45.0, 5.0, 160.0, ()
    )


def measured(cells: Sequence[Alone], both: Sequence[Both] = (), *, most: int | None = 256) -> Measured:
    """A measurement of these cells."""
    return Measured(
        KEY,
        tuple(cells),
        tuple(both),
        (),
        {Path.BASELINE: 2e-5, Path.SPECULATIVE: 2.2e-5},
        dict.fromkeys(Path, most),
        "2026-11-29T12:00:00Z",
        1234.0,
        "spec-router calibrate",
        (),
    )


def table(
    baseline: Mapping[int, float],
    eagle: Mapping[int, tuple[float, float]],
    together: Sequence[MixedCell] = (),
    *,
    group: str = GROUP,
) -> Measured:
    """One visit to each cell."""
    cells = [alone(Path.BASELINE, n, rate, group=group) for n, rate in baseline.items()]
    cells += [alone(Path.SPECULATIVE, n, *cell, group=group) for n, cell in eagle.items()]
    return measured(cells, [both(each) for each in together])


def both(cell: MixedCell, drained: Path | None = None, seconds: float | None = None) -> Both:
    """A mixed cell without fault."""
    rates = (cell.baseline_rate, cell.speculative_rate)
    return Both(cell.baseline, cell.speculative, *rates, None, drained, seconds, ())


def swept(
    engines: Calibration,
    sizes: Sequence[int],
    *,
    noise: float = 0.0,
    repeats: int = 1,
    seed: int = 0,
    accept_length: float | None = None,
) -> Measured:
    """A sweep of engines that are as the calibration says, each rate off by `noise` (standard deviation)."""
    random = Random(seed)
    gain = engines.accept_length if accept_length is None else accept_length
    cells = [
        alone(
            path,
            n,
            engines.tokens_per_second(path, n, gain) * random.lognormvariate(0.0, noise),
            gain if path is Path.SPECULATIVE else None,
            spread=noise * Z90,
        )
        for _ in range(repeats)
        for path in Path
        for n in sizes
    ]
    return measured(cells)


def profile(name: str) -> Calibration:
    """A profile of the simulation, as a sweep without noise sees it."""
    return load_plant(name, Placement.SHARED)[1]


def together() -> tuple[Both, ...]:
    """The mixed cells of real engines, with drains of both paths."""
    drains = [(Path.BASELINE, 3.1), (Path.SPECULATIVE, 2.2)]
    return tuple(both(cell, *drains[place % 2]) for place, cell in enumerate(TOGETHER))


def spoiled(found: Measured, place: int, **changes: object) -> Measured:
    """The same with one cell changed."""
    cells = list(found.alone)
    cells[place] = replace(cells[place], **changes)  # type: ignore[arg-type]
    return replace(found, alone=tuple(cells))
