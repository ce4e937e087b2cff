"""Pictures of a comparison; needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path as FilePath
from typing import Any

from router.core.words import Path
from router.plotting import figure_class
from router.replay.compare import Row
from router.replay.run import Run


def plot(rows: Sequence[Row], title: str, file: FilePath) -> None:
    """Latencies of all contenders, and the load of the calibrated one with its switches.

    Raises:
        PlotsMissing: matplotlib is not installed.
        OSError, ValueError: the file cannot be written, or not in this format.
    """
    figure = figure_class()(figsize=(9, 7), layout="constrained")
    above, below = figure.subplots(2, 1)
    _bars(above, rows)
    above.set_title(title, loc="left")
    shown = next((row for row in rows if row.first.switches), rows[0])
    _course(below, shown.first)
    below.set_title(f"requests in flight, served by: {shown.name}", loc="left")
    figure.savefig(file, dpi=80)


def _bars(axes: Any, rows: Sequence[Row]) -> None:
    names = [row.name for row in rows]
    means = [row.figures["latency_mean"] for row in rows]
    axes.barh(names, [each.mean for each in means], xerr=[each.within for each in means], color="#4477aa")
    axes.invert_yaxis()
    low = min(each.mean for each in means)
    if max(each.mean for each in means) > 10 * low:
        axes.set_xscale("log")
    axes.set_xlabel("mean latency, seconds")


def _course(axes: Any, run: Run) -> None:
    moments = sorted([(job.arrived, 1) for job in run.jobs] + [(job.done, -1) for job in run.jobs])
    axes.plot([at for at, _ in moments], list(accumulate(step for _, step in moments)), linewidth=0.8)
    since = 0.0
    for at, path in [*((each.at, each.origin) for each in run.switches), (run.seconds, _last(run))]:
        color = "#66ccee" if path is Path.SPECULATIVE else "#ee8866"
        axes.axvspan(since, at, color=color, alpha=0.25, linewidth=0)
        since = at
    axes.set_xlabel("seconds; blue: new requests go to speculative, orange: to baseline")


def _last(run: Run) -> Path:
    """Where requests went in the end."""
    if run.switches:
        return run.switches[-1].target
    return max(run.served, key=lambda path: run.served[path])
