"""The pictures of docs/policy.md: `python -m router.replay.pictures FOLDER`; needs the extra `plots`."""

from __future__ import annotations

import sys
from pathlib import Path as FilePath

from router.core.band import band
from router.core.calibration import Calibration
from router.core.words import Path, Placement
from router.plotting import PlotsMissing, figure_class
from router.replay.compare import compare
from router.replay.contenders import ADAPTIVE, SPECULATIVE_ONLY, contenders
from router.replay.figures import Slo
from router.replay.load import read_load
from router.replay.plant import load_plant
from router.replay.plots import plot

DAY = "day:0.02-4/s:40m"


def break_even(calibration: Calibration, title: str, file: FilePath) -> None:
    """Throughput of both engines by load, and what the accept length does to the crossover."""
    figure = figure_class()(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    loads = range(1, calibration.limit + 1)
    for path, colour in ((Path.SPECULATIVE, "#4477aa"), (Path.BASELINE, "#ee6677")):
        rates = [calibration.tokens_per_second(path, n) for n in loads]
        left.plot(loads, rates, color=colour, label=path.value)
    marks = band(calibration, calibration.accept_length)
    if marks.low is not None and marks.high is not None:
        left.axvspan(marks.low, marks.high, color="#bbbbbb", alpha=0.4, label="band")
    left.set_xscale("log", base=2)
    left.set_xlabel("requests in flight")
    left.set_ylabel("tokens per second")
    left.legend()
    lengths = [1.0 + step / 50 for step in range(int(50 * (max(calibration.break_even) + 0.2 - 1.0)))]
    right.plot(lengths, [calibration.crossover(length).n for length in lengths], color="#228833")
    right.axvline(calibration.accept_length, color="#bbbbbb", linestyle="--")
    right.set_xlabel("accept length")
    right.set_ylabel("crossover N*, requests in flight")
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(file, dpi=80)


def main() -> int:
    """Draw all of them."""
    folder = FilePath(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _, calibration = load_plant("h200", Placement.SHARED)
        break_even(calibration, "profile h200", folder / "break-even-h200.png")
        profile, calibration = load_plant("strong", Placement.SHARED)
        shown = [
            each for each in contenders(profile, calibration) if each.name not in (SPECULATIVE_ONLY, ADAPTIVE)
        ]
        rows = compare(shown, read_load(DAY), 3, Slo())
        rows.sort(key=lambda row: row.name != "calibrated")
        plot(rows, f"{DAY} on strong, 3 seeds", folder / "day-strong.png")
    except PlotsMissing as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
