"""Values that several tests need."""

from __future__ import annotations

from typing import Any

from router.demo.frame import Frame, LoadNow, PathRow, Sample, SwitchRow
from router.sim.speed import Curve, EngineSpeed, Profile

LOAD = LoadNow(elapsed=33.0, users=13, stopping=False, requests=200, failed=0)


def profile(speculative: dict[int, float], baseline: dict[int, float], limit: int = 256) -> Profile:
    """A profile named `made` with these step times in seconds; every speculative step gains 2 tokens."""
    return Profile(
        "made",
        EngineSpeed(Curve(tuple(speculative.items())), 2.0, 3, max_running_requests=limit),
        EngineSpeed(Curve(tuple(baseline.items())), max_running_requests=limit),
    )


def path_status(**changes: Any) -> dict[str, Any]:
    """One path in the router's status."""
    idle = {
        "active": 0,
        "up": True,
        "tokens_per_second": None,
        "ttft_p50": None,
        "ttft_p99": None,
        "requests": 0,
        "tokens": 0,
    }
    return idle | changes


def status(
    n: int = 4, active: str = "speculative", switches: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    """The parts of the router's status that the screen needs."""
    paths = {"speculative": path_status(), "baseline": path_status(active=n, requests=7, ttft_p50=0.064)}
    pair = {
        "policy": {"kind": "threshold", "high": 13, "low": 5, "dwell": 3.0, "smoothing": 1.0},
        "active_path": active,
        "since_seconds": 3.2,
        "n": n,
        "mixed_seconds": 1.5,
        "paths": paths,
        "switches": list(switches),
    }
    return {"pairs": [pair]}


def switch(at: float, origin: str, target: str, n: int, reason: str) -> dict[str, Any]:
    """A switch in the router's status."""
    return {"at": at, "from": origin, "to": target, "n": n, "reason": reason}


def frame(
    history: tuple[Sample, ...] = (), switches: tuple[SwitchRow, ...] = (), load: LoadNow = LOAD
) -> Frame:
    """A moment after an up-switch."""
    rows = (
        PathRow("speculative", False, 1, 60, 120.4, 0.064, 0.15),
        PathRow("baseline", True, 13, 12, None, None, None),
    )
    return Frame(load, "baseline", 3.2, "N reached 13, high is 13", 14, 13, 5, 1.5, history, rows, switches)
