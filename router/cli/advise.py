"""`spec-router advise`: which layout of engines fits."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from router.advise.means import Means
from router.advise.plan_file import PlanFileError, read_plan
from router.advise.verdict import Advice, advise
from router.core.calibration import Calibration, quantile
from router.core.words import Placement
from router.replay.contenders import CALIBRATED, contenders
from router.replay.load import LoadError, read_load
from router.replay.plant import load_plant
from router.replay.run import Run, play
from router.replay.traffic import shares
from router.sim import ProfileError
from router.sim.speed import Profile

WRONG = 2
ROWS = 12


@dataclass(frozen=True, slots=True)
class AdviseOptions:
    """What the command line said; see its help. `means` win over those of `plan`."""

    calibration: str
    traffic: str | None
    rate: float
    accept_length: float | None
    means: Means
    as_json: bool
    plan: Path | None = None


def run_advise(options: AdviseOptions) -> int:
    """Print the verdict and return 0; or say what is wrong and return 2."""
    try:
        means = options.means if options.plan is None else options.means.over(read_plan(options.plan))
        profile, calibration = load_plant(options.calibration, Placement.SHARED)
        run = None if options.traffic is None else _served(options, options.traffic, profile, calibration)
    except (PlanFileError, ProfileError, LoadError) as error:
        print(error, file=sys.stderr)
        return WRONG
    if run and means.request_tokens is None:
        means = replace(
            means, request_tokens=round(quantile([job.prompt + job.output for job in run.jobs], 0.95))
        )
    advice = advise(calibration, means, shares(run) if run else None, options.accept_length)
    if options.as_json:
        print(json.dumps(asdict(advice), indent=2))
    else:
        _show(advice, Console(width=None if sys.stdout.isatty() else 110))
    return 0


def _served(options: AdviseOptions, traffic: str, profile: Profile, calibration: Calibration) -> Run:
    """The traffic, served by the calibrated policy."""
    load = read_load(traffic, options.rate)
    served = contenders(profile, calibration, accept_length=options.accept_length)
    return play(next(each for each in served if each.name == CALIBRATED), load, 0)


def _show(advice: Advice, console: Console) -> None:
    console.print(f"[bold]{advice.layout}[/bold]")
    marks = advice.band
    console.print(
        f"At accept length {advice.accept_length:.2f} speculation wins {_reach(advice)}; "
        f"{advice.below:.0%} of the requests come at such loads."
        + (f" Watermarks {marks.low:.1f} and {marks.high:.1f}." if marks.low and marks.high else "")
    )
    layouts = Table(title="what a user waits for a token", title_justify="left")
    layouts.add_column("layout")
    layouts.add_column("ms", justify="right")
    layouts.add_column("")
    for each in advice.options:
        waits = "-" if each.seconds_per_token is None else f"{1e3 * each.seconds_per_token:.2f}"
        layouts.add_row(each.layout, waits, each.why_not)
    console.print(layouts)
    loads = Table(title="traffic", title_justify="left")
    for name in ("in flight", "share of requests", "speculative tok/s", "baseline tok/s"):
        loads.add_column(name, justify="right")
    for load in _thinned(advice):
        loads.add_row(*load)
    console.print(loads)
    for note in advice.notes:
        console.print(f"Assumed: {note}.")
    for change in advice.changes:
        console.print(f"Would change it: {change}.")


def _reach(advice: Advice) -> str:
    crossover = advice.band.crossover
    return {
        "none": "nowhere",
        "part": f"up to {crossover.n:.1f} requests in flight",
        "always": f"at every load that was measured, up to {crossover.n:.0f}",
    }[crossover.reach]


def _thinned(advice: Advice) -> list[tuple[str, str, str, str]]:
    """At most `ROWS` rows: neighbouring loads are put together."""
    size = -(-len(advice.loads) // ROWS)
    groups = [advice.loads[place : place + size] for place in range(0, len(advice.loads), size)]
    return [
        (
            str(group[0].n) if len(group) == 1 else f"{group[0].n} to {group[-1].n}",
            f"{sum(load.share for load in group):.1%}",
            f"{group[-1].speculative:.0f}",
            f"{group[-1].baseline:.0f}",
        )
        for group in groups
    ]
