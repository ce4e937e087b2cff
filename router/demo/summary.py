"""What a demonstration came to, as JSON and as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from router.core.policy import Switch
from router.core.words import Outcome, Path
from router.demo.plan import Plan
from router.demo.tally import PathFigures, Tally
from router.demo.words import rate_text, seconds_text, switch_text


@dataclass(frozen=True, slots=True)
class SwitchEvent:
    """A change of the active path; `at` is seconds since the demonstration began."""

    at: float
    origin: str
    target: str
    n: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        """With the names that the router's status uses."""
        return {"at": self.at, "from": self.origin, "to": self.target, "n": self.n, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a demonstration.

    Attributes:
        plan: what was shown.
        seconds: how long the load ran.
        requests, failed, problems, paths: what the clients saw.
        switches, mixed_seconds, open_leases, outcomes: what the router's ledger says at the end.
    """

    plan: Plan
    seconds: float
    requests: int
    failed: int
    problems: Mapping[str, int]
    paths: Mapping[Path, PathFigures]
    switches: tuple[SwitchEvent, ...]
    mixed_seconds: float
    open_leases: int
    outcomes: Mapping[Outcome, int]

    @property
    def ok(self) -> bool:
        """True if no request failed and the ledger is empty."""
        return self.failed == 0 and self.open_leases == 0

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints. Times are seconds; what does not exist is null."""
        plan = self.plan
        return {
            "profile": plan.profile.name,
            "seconds": round(self.seconds, 3),
            "requests": self.requests,
            "failed": self.failed,
            "problems": dict(self.problems),
            "switches": [switch.as_json() for switch in self.switches],
            "paths": {path.value: _rounded(asdict(figures)) for path, figures in self.paths.items()},
            "mixed_seconds": round(self.mixed_seconds, 3),
            "open_leases": self.open_leases,
            "outcomes": {outcome.value: count for outcome, count in self.outcomes.items()},
            "policy": {
                "high": plan.high,
                "low": plan.low,
                "dwell": plan.dwell,
                "smoothing": plan.smoothing,
                "derived": plan.derived,
            },
            "crossover": plan.comparison.crossover,
            "verdict": plan.comparison.sentence(),
        }

    def lines(self) -> list[str]:
        """For people."""
        lines = [
            f"{self.seconds:.0f} s of load: {self.requests} requests, {self.failed} failed, "
            f"{self.open_leases} still open, both in use for {self.mixed_seconds:.1f} s"
        ]
        lines += [f"  failed {count} times: {problem}" for problem, count in self.problems.items()]
        lines += [_path_line(path, figures) for path, figures in self.paths.items()]
        lines.append("  (tok/s: tokens by the time the path had requests in flight; TTFT: p50/p99)")
        lines += [f"switches: {len(self.switches)}"]
        lines += [
            f"  {each.at:6.1f} s  {switch_text(each.origin, each.target, each.n, each.reason)}"
            for each in self.switches[-10:]
        ]
        return [*lines, f"verdict: {self.plan.comparison.sentence()}"]


def summarize(
    plan: Plan,
    tally: Tally,
    switches: Iterable[Switch],
    outcomes: Mapping[Outcome, int],
    *,
    began: float,
    seconds: float,
    mixed_seconds: float,
    open_leases: int,
) -> Summary:
    """Sum up. `began` is on the clock of the switches."""
    return Summary(
        plan=plan,
        seconds=seconds,
        requests=tally.requests,
        failed=tally.failed,
        problems=dict(tally.problems),
        paths={path: tally.figures(path) for path in Path},
        switches=tuple(
            SwitchEvent(
                round(each.at - began, 3), each.origin.value, each.target.value, each.n, each.reason.value
            )
            for each in switches
        ),
        mixed_seconds=mixed_seconds,
        open_leases=open_leases,
        outcomes=dict(outcomes),
    )


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}


def _path_line(path: Path, figures: PathFigures) -> str:
    return (
        f"  {path.value:<11} {figures.requests:>5} requests {figures.tokens:>7} tokens "
        f"{rate_text(figures.tokens_per_second):>5} tok/s  "
        f"TTFT {seconds_text(figures.ttft_p50)}/{seconds_text(figures.ttft_p99)}"
    )
