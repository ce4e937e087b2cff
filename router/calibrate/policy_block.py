"""The `policy` section of a configuration that follows from a verdict."""

from __future__ import annotations

import json
import math
import re

from router.calibrate.derive import Derived
from router.calibrate.result import Result
from router.calibrate.verdict import Kind, within
from router.core.calibration import Reach
from router.core.words import Path, Placement

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*\.ya?ml")
_TAMES = re.compile(r"[^ -~–−]")


def policy_block(result: Result, file: str) -> str | None:
    """The section as YAML, or None where the measurement gives none.

    Where speculation pays nowhere the baseline is pinned: while it serves, no accept length is measured, so a
    calibrated policy could never learn that speculation has become better. Where it pays at every load the
    policy is calibrated all the same: the accept length may fall, and nothing is known of loads above the
    largest measured one, which is the high watermark therefore. Engines on GPUs of their own have no such
    choice to make: each request goes where it adds most.

    Args:
        file: where the calibration will be, relative to the configuration.
    """
    derived, kind = result.derived, result.verdict.kind
    if derived is None or not result.verdict.usable:
        return None
    head = [
        f"# spec-router calibrate, {_tame(result.measured.started)}:",
        f"# {_finding(derived)}.",
        "policy:",
    ]
    apart = derived.calibration.key.placement is Placement.SEPARATE
    if kind is Kind.NEVER and not apart:
        return _lines(
            *head,
            "  # Measure again after a change of the draft model or of the traffic.",
            "  kind: pinned",
            f"  path: {Path.BASELINE}",
        )
    high, low, why = _watermarks(derived)
    return _lines(
        *head,
        "  kind: calibrated",
        f"  calibration: {_scalar(file)}",
        "  # These two decide only while the engines are not those that were measured;",
        f"  # {why}.",
        f"  high: {high}",
        f"  low: {low}",
        f"  dwell: {math.ceil(derived.calibration.dwell())}s",
    )


def _finding(derived: Derived) -> str:
    at, limit = derived.at, derived.calibration.limit
    length = f"at accept length {at.accept_length:.2f}"
    found = {
        Reach.NONE: "speculation pays nowhere",
        Reach.PART: f"crossover at {at.crossover.n:.3g} requests in flight",
        Reach.ALWAYS: f"speculation pays up to {limit} requests in flight",
    }[at.crossover.reach]
    return f"{found} {length} ({within(at.interval, limit)})"


def _watermarks(derived: Derived) -> tuple[int, int, str]:
    """Whole watermarks with 0 < low < high, and where they come from."""
    band, limit = derived.at.band, derived.calibration.limit
    if band.low is None:
        return 2, 1, "they are as low as can be"
    high = max(2, round(band.high)) if band.high is not None else max(2, limit)
    why = (
        "they are the band at that accept length"
        if band.high is not None
        else "high is the largest load that was measured"
    )
    most = derived.calibration.speculative.max_running_requests
    if most is not None and most < high:
        high, why = (
            max(2, most),
            "high is what the speculative engine runs at a time, and lower than the band",
        )
    wanted = band.low if band.high is not None else high / 2
    return high, min(max(1, round(wanted)), high - 1), why


def _scalar(text: str) -> str:
    """A file name as YAML; the configuration would replace ${…} in it."""
    text = text.replace("${", "$${")
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _tame(text: str) -> str:
    """Fit for a comment."""
    return _TAMES.sub("?", text)[:40]


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"
