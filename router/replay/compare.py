"""All contenders over one load, repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from router.replay.figures import Estimate, Slo, estimates, summarise
from router.replay.load import Load
from router.replay.run import AcceptLengths, Contender, Run, play


@dataclass(frozen=True, slots=True)
class Row:
    """One contender: its figures over all repeats, and its first run."""

    name: str
    figures: dict[str, Estimate]
    first: Run


def compare(
    contenders: Sequence[Contender],
    load: Load,
    seeds: int,
    slo: Slo,
    accept_length: AcceptLengths | None = None,
    on_run: Callable[[str], None] = lambda name: None,
) -> list[Row]:
    """Serve the load `seeds` times by each contender; the same arrivals for all.

    Args:
        on_run: told the contender's name after each run.
    """
    rows = []
    for contender in contenders:
        runs = []
        for seed in range(seeds):
            runs.append(play(contender, load, seed, accept_length))
            on_run(contender.name)
        figures = estimates([summarise(run, slo) for run in runs])
        rows.append(Row(contender.name, figures, runs[0]))
    return rows
