"""`spec-router replay`: policies against a load in virtual time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from router.core.words import Placement
from router.plotting import PlotsMissing
from router.replay.compare import compare
from router.replay.contenders import contenders
from router.replay.figures import Slo
from router.replay.load import LoadError, read_load
from router.replay.plant import load_plant
from router.replay.plots import plot
from router.replay.table import as_json as rows_as_json
from router.replay.table import as_table
from router.sim import ProfileError

WRONG = 2


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What the command line said; see its help."""

    load: str
    profile: str
    rate: float
    users: float | None
    seconds: float | None
    seeds: int
    placement: Placement
    accept_length: float | None
    slo: Slo
    as_json: bool
    plot: Path | None
    jobs: int | None = None


def replay(options: ReplayOptions) -> int:
    """Print the comparison and return 0; or say what is wrong and return 2."""
    if options.placement is Placement.SINGLE:
        print("--placement single has nothing to compare; allowed: shared, separate", file=sys.stderr)
        return WRONG
    try:
        load = read_load(options.load, options.rate, options.seconds)
        if options.users is not None:
            load = load.with_users(options.users)
        profile, calibration = load_plant(options.profile, options.placement)
    except (LoadError, ProfileError) as error:
        print(error, file=sys.stderr)
        return WRONG
    found = contenders(profile, calibration, options.placement, options.accept_length)
    with _progress(len(found) * options.seeds) as tell:
        began = time.monotonic()
        rows = compare(found, load, options.seeds, options.slo, on_run=tell, jobs=options.jobs)
        speedup = sum(row.seconds for row in rows) / (time.monotonic() - began)
    title = f"{load.name} on {profile.name}, {options.placement.value}; {options.seeds} seeds"
    if options.as_json:
        shown = {"load": load.name, "profile": profile.name, "speedup": round(speedup, 1)}
        print(json.dumps({**shown, "rows": rows_as_json(rows)}, indent=2))
    else:
        caption = f"{speedup:,.0f} times as fast as real time"
        Console(width=None if sys.stdout.isatty() else 140).print(as_table(rows, title, caption))
    if options.plot is None:
        return 0
    try:
        plot(rows, title, options.plot)
    except (PlotsMissing, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return WRONG
    return 0


@contextmanager
def _progress(runs: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, a line for each run elsewhere; both on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name: print(f"served by {name}", file=sys.stderr)
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("replaying", total=runs)
        yield lambda name: progress.update(task, advance=1, description=f"served by {name}")
