"""What the calibrated policy promises, measured: `python -m router.replay.goals [--quick]`.

* at a steady load outside [low, high] its mean latency is within 3 % of the better engine's, inside 8 %;
* the watermarks 8/3 are beaten or equalled at every load: the interval of the ratio contains 1, or it is at
  most 1.02, for the policy takes a gain below 2 % for noise;
* on a day from idle to overload its mean latency is 20 % better than speculation's, and in the quiet half its
  time per token is 10 % better than the baseline's, where the oracle can do that;
* it comes back to speculation no more often than once in a dwell.

All ratios are paired: of two runs with the same seed, so with the same arrivals. Where the interval over the
seeds contains the limit, more of them are played.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from rich.console import Console
from rich.table import Table

from router.core.band import band
from router.core.calibrated import LEAST_GAIN
from router.core.words import Path, Placement
from router.replay.contenders import BASELINE_ONLY, CALIBRATED, FIXED, ORACLE, SPECULATIVE_ONLY, contenders
from router.replay.figures import Estimate, Figures, Slo, estimate, summarise
from router.replay.load import read_load
from router.replay.plant import load_plant
from router.replay.run import Run, play
from router.replay.spread import spread

OUTSIDE, INSIDE = 1.03, 1.08
EQUAL = 1.0 + LEAST_GAIN
# So many times the seeds where the first ones leave it open whether a limit is kept.
MORE = 4
DAY, QUIET = 0.80, 0.90
# Requests that arrive before this are the start, not the steady state.
WARM_UP = 60.0
SLO = Slo()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played on one profile: steady loads and a day."""

    profile: str
    steady: tuple[str, ...]
    seconds: float
    days: tuple[str, ...]


FULL = (
    Plan(
        "strong",
        (
            *(f"steady:{n}" for n in (1, 2, 4, 6, 8, 9, 10, 11, 12, 13, 16, 20, 30, 60, 120)),
            *(f"steady:{rate}/s" for rate in (0.3, 0.8, 1.2, 1.6, 2.0, 2.3, 2.7, 3.2, 4, 5)),
        ),
        900.0,
        ("wave:0.02-5/s:40m", "day:0.02-5/s:40m"),
    ),
    Plan(
        "h200",
        (
            *(f"steady:{n}" for n in (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 24, 32, 64, 128)),
            *(f"steady:{rate}/s" for rate in (1, 4, 8, 12, 15, 17, 20, 25, 35, 50)),
        ),
        300.0,
        ("wave:0.1-90/s:20m", "day:0.1-90/s:20m"),
    ),
)
QUICK = (
    Plan(
        "strong",
        ("steady:3", "steady:8", "steady:12", "steady:30", "steady:2.7/s"),
        360.0,
        ("day:0.02-5/s:15m",),
    ),
    Plan("h200", ("steady:4", "steady:15", "steady:40"), 150.0, ("day:0.1-90/s:6m",)),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One goal at one load: a ratio over the seeds, what it may be at most, whether the oracle keeps that."""

    profile: str
    load: str
    goal: str
    value: Estimate
    limit: float
    possible: bool = True

    @property
    def equal(self) -> bool:
        """Whether the interval contains 1."""
        return abs(self.value.mean - 1.0) <= self.value.within

    @property
    def met(self) -> bool:
        """Whether the mean keeps the limit, or is 1 within its interval, where anything can."""
        return self.value.mean <= self.limit or (self.limit >= 1.0 and self.equal) or not self.possible

    @property
    def open(self) -> bool:
        """Whether more seeds might turn it."""
        return self.possible and abs(self.value.mean - self.limit) <= self.value.within


@dataclass(frozen=True, slots=True)
class _Trial:
    plan: Plan
    load: str
    day: bool


def check(plans: Sequence[Plan], seeds: int, jobs: int | None = 1, more: int = 1) -> list[Finding]:
    """All goals on these profiles; `jobs`: see `spread`.

    Args:
        more: so many times the seeds for loads at which they leave a goal open.
    """
    trials = [_Trial(plan, load, load in plan.days) for plan in plans for load in (*plan.steady, *plan.days)]
    return [each for found in spread(partial(_findings, seeds, more), trials, jobs, _said) for each in found]


def _findings(seeds: int, more: int, trial: _Trial) -> list[Finding]:
    play_all = _day if trial.day else _steady
    found = play_all(trial.plan, trial.load, seeds)
    if more > 1 and any(each.open for each in found):
        return play_all(trial.plan, trial.load, more * seeds)
    return found


def _said(trial: _Trial) -> None:
    print(f"{trial.plan.profile} {trial.load}", file=sys.stderr)


def _runs(
    plan: Plan, load: str, seconds: float | None, seeds: int, names: Sequence[str]
) -> dict[str, list[Run]]:
    profile, calibration = load_plant(plan.profile, Placement.SHARED)
    arrivals = read_load(load, duration=seconds)
    return {
        each.name: [play(each, arrivals, seed) for seed in range(seeds)]
        for each in contenders(profile, calibration)
        if each.name in names
    }


def _steady(plan: Plan, load: str, seeds: int) -> list[Finding]:
    names = (SPECULATIVE_ONLY, BASELINE_ONLY, FIXED, CALIBRATED)
    runs = _runs(plan, load, plan.seconds, seeds, names)
    latency = {name: [_steady_latency(run) for run in runs[name]] for name in names}
    better = min((SPECULATIVE_ONLY, BASELINE_ONLY), key=lambda name: sum(latency[name]))
    inside = _inside(plan, _in_flight(runs[better][0], plan.seconds))
    place = "inside" if inside else "outside"
    limit = INSIDE if inside else OUTSIDE
    return [
        Finding(
            plan.profile,
            load,
            f"{place} the band: to {better}",
            _ratio(latency[CALIBRATED], latency[better]),
            limit,
        ),
        Finding(plan.profile, load, f"to {FIXED}", _ratio(latency[CALIBRATED], latency[FIXED]), EQUAL),
        _returns(plan, load, runs[CALIBRATED]),
    ]


def _day(plan: Plan, load: str, seeds: int) -> list[Finding]:
    names = (SPECULATIVE_ONLY, BASELINE_ONLY, FIXED, CALIBRATED, ORACLE)
    runs = _runs(plan, load, None, seeds, names)
    whole = {name: [summarise(run, SLO).latency_mean for run in runs[name]] for name in names}
    length = read_load(load).duration
    quiet = {name: [_quiet(run, length).tpot_p50 for run in runs[name]] for name in names}
    ideal = _ratio(quiet[ORACLE], quiet[BASELINE_ONLY])
    possible = ideal.mean <= QUIET
    row = [
        ("whole: to speculative only", _ratio(whole[CALIBRATED], whole[SPECULATIVE_ONLY]), DAY, True),
        ("whole: to baseline only", _ratio(whole[CALIBRATED], whole[BASELINE_ONLY]), EQUAL, True),
        ("whole: to threshold 8/3", _ratio(whole[CALIBRATED], whole[FIXED]), EQUAL, True),
        (
            "quiet half, TPOT p50: to baseline",
            _ratio(quiet[CALIBRATED], quiet[BASELINE_ONLY]),
            QUIET,
            possible,
        ),
        ("the same, of the oracle", ideal, QUIET, False),
    ]
    found = [Finding(plan.profile, load, *each) for each in row]
    return [*found, _returns(plan, load, runs[CALIBRATED])]


def _steady_latency(run: Run) -> float:
    return summarise(run, SLO, since=WARM_UP).latency_mean


def _quiet(run: Run, length: float) -> Figures:
    """The half of the day around its lowest load, which is at its ends."""
    jobs = [job for job in run.jobs if not length / 4 <= job.arrived < 3 * length / 4]
    return summarise(Run(jobs, run.switches, run.mixed_seconds, run.seconds, run.served), SLO)


def _returns(plan: Plan, load: str, runs: Sequence[Run]) -> Finding:
    """Switches back to speculation, as a share of what the dwell allows."""
    _, calibration = load_plant(plan.profile, Placement.SHARED)
    shares = [
        sum(switch.target is Path.SPECULATIVE for switch in run.switches)
        / (1 + run.seconds / calibration.dwell())
        for run in runs
    ]
    return Finding(plan.profile, load, "returns, of 1 + T/dwell", estimate(shares), 1.0)


def _inside(plan: Plan, n: float) -> bool:
    _, calibration = load_plant(plan.profile, Placement.SHARED)
    marks = band(calibration, calibration.accept_length)
    return marks.low is not None and marks.high is not None and marks.low <= n <= marks.high


def _in_flight(run: Run, seconds: float) -> float:
    """Mean requests in flight (Little's law)."""
    return sum(job.done - job.arrived for job in run.jobs) / seconds


def _ratio(these: Sequence[float], those: Sequence[float]) -> Estimate:
    return estimate([one / other for one, other in zip(these, those, strict=True)])


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="The goals of the calibrated policy, measured.")
    parser.add_argument("--quick", action="store_true", help="fewer loads, shorter")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, help="processes; without it, as many as there are cores")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = check(QUICK if options.quick else FULL, options.seeds, options.jobs, MORE)
    if options.json:
        print(
            json.dumps([{**asdict(each), "met": each.met, "equal": each.equal} for each in found], indent=2)
        )
    else:
        Console(width=140).print(_table(found, options.seeds))
    return 0 if all(each.met for each in found) else 1


def _table(found: Sequence[Finding], seeds: int) -> Table:
    table = Table(
        title=f"mean latency of the calibrated policy, as paired ratios; {seeds} seeds, {MORE * seeds} where "
        "they leave a goal open",
        title_justify="left",
    )
    for name in ("profile", "load", "goal", "ratio", "95 %", "at most", ""):
        table.add_column(name, justify="right" if name in ("ratio", "95 %", "at most") else "left")
    for each in found:
        table.add_row(
            each.profile,
            each.load,
            each.goal,
            f"{each.value.mean:.3f}",
            f"±{each.value.within:.3f}",
            f"{each.limit:.2f}",
            _word(each),
        )
    return table


def _word(found: Finding) -> str:
    if not found.met:
        return "missed"
    if found.limit >= 1.0 and found.equal:
        return "equal"
    return "" if found.value.mean <= found.limit else "beyond the oracle"


if __name__ == "__main__":
    raise SystemExit(main())
