"""All contenders over one load, repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from router.replay.figures import Estimate, Figures, Slo, estimates, summarise
from router.replay.load import Load
from router.replay.run import AcceptLengths, Contender, Run, play
from router.replay.spread import spread


@dataclass(frozen=True, slots=True)
class Row:
    """One contender: its figures over all repeats, its first run, and the virtual seconds of all of them."""

    name: str
    figures: dict[str, Estimate]
    first: Run
    seconds: float


@dataclass(frozen=True, slots=True)
class _Task:
    contender: Contender
    seed: int


@dataclass(frozen=True, slots=True)
class _Served:
    """What is kept of a run; the run itself only of the first."""

    figures: Figures
    seconds: float
    run: Run | None


def compare(
    contenders: Sequence[Contender],
    load: Load,
    seeds: int,
    slo: Slo,
    accept_length: AcceptLengths | None = None,
    on_run: Callable[[str], None] = lambda name: None,
    jobs: int | None = 1,
) -> list[Row]:
    """Serve the load `seeds` times by each contender; the same arrivals for all.

    Args:
        on_run: told the contender's name after each run.
        jobs: see `spread`; the rows do not depend on it.
    """
    tasks = [_Task(contender, seed) for contender in contenders for seed in range(seeds)]
    serve = partial(_serve, load, slo, accept_length)
    served = spread(serve, tasks, jobs, lambda task: on_run(task.contender.name))
    return [
        _row(contender.name, served[place * seeds : (place + 1) * seeds])
        for place, contender in enumerate(contenders)
    ]


def _serve(load: Load, slo: Slo, accept_length: AcceptLengths | None, task: _Task) -> _Served:
    run = play(task.contender, load, task.seed, accept_length)
    return _Served(summarise(run, slo), run.seconds, None if task.seed else run)


def _row(name: str, served: Sequence[_Served]) -> Row:
    (first,) = (each.run for each in served if each.run)
    figures = estimates([each.figures for each in served])
    return Row(name, figures, first, sum(each.seconds for each in served))
