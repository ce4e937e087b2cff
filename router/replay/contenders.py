"""The ways to serve a load that a replay compares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

from router.core.band import band
from router.core.calibrated import CalibratedPolicy
from router.core.calibration import Calibration
from router.core.marginal import MarginalPolicy
from router.core.policy import FixedPolicy, Policy, ThresholdPolicy
from router.core.words import Path, Placement
from router.replay.engine import JumpEngine, Mode
from router.replay.run import Contender
from router.sim.speed import Profile

# Smoothing of N, as in the router's own defaults.
SMOOTHING = 2.0
DWELL = 10.0
# One engine that stops speculating by itself still pays for it: +6.6 % at 2 requests, +21.6 % at 189 were
# measured on vLLM.
ADAPTIVE_TAX = 1.10

SPECULATIVE_ONLY = "speculative only"
BASELINE_ONLY = "baseline only"
FIXED = "threshold 8/3"
DERIVED = "threshold derived"
CALIBRATED = "calibrated"
ORACLE = "oracle"
ADAPTIVE = "adaptive engine"


def contenders(
    profile: Profile,
    calibration: Calibration,
    placement: Placement = Placement.SHARED,
    accept_length: float | None = None,
) -> list[Contender]:
    """All of them.

    Args:
        profile: the engines as they are.
        calibration: as they were measured, which is what policies know.
        accept_length: of the live workload where it is not the profile's.
    """
    pair = partial(_two, profile, accept_length)
    adaptive = partial(_one, profile, accept_length, ADAPTIVE_TAX)
    ideal = partial(_one, profile, accept_length, 1.0)
    rules = CalibratedPolicy(calibration, SMOOTHING)
    clever: Policy = MarginalPolicy(rules) if placement is Placement.SEPARATE else rules
    return [
        Contender(SPECULATIVE_ONLY, placement, pair, FixedPolicy(Path.SPECULATIVE, "pinned")),
        Contender(BASELINE_ONLY, placement, pair, FixedPolicy(Path.BASELINE, "pinned")),
        Contender(FIXED, placement, pair, ThresholdPolicy(8, 3, DWELL, SMOOTHING)),
        Contender(DERIVED, placement, pair, derived(calibration)),
        Contender(CALIBRATED, placement, pair, clever),
        Contender(ADAPTIVE, Placement.SINGLE, adaptive, FixedPolicy(Path.SPECULATIVE, "single")),
        Contender(ORACLE, Placement.SINGLE, ideal, FixedPolicy(Path.SPECULATIVE, "single")),
    ]


def derived(calibration: Calibration) -> Policy:
    """Fixed watermarks from the calibration's own accept length."""
    marks = band(calibration, calibration.accept_length)
    if marks.low is None:
        return FixedPolicy(Path.BASELINE, "pinned")
    if marks.high is None:
        return FixedPolicy(Path.SPECULATIVE, "pinned")
    high = max(2, math.ceil(marks.high))
    return ThresholdPolicy(high, max(1, min(high - 1, round(marks.low))), calibration.dwell(), SMOOTHING)


def _modes(profile: Profile, accept_length: float | None) -> tuple[Mode, Mode]:
    speculative = profile.speculative
    gain = speculative.accept_length if accept_length is None else accept_length
    return Mode(speculative, gain), Mode(profile.baseline, 1.0)


def _two(profile: Profile, accept_length: float | None, rng: Random) -> Mapping[Path, JumpEngine]:
    speculative, baseline = _modes(profile, accept_length)
    return {
        Path.SPECULATIVE: JumpEngine((speculative,), rng),
        Path.BASELINE: JumpEngine((baseline,), rng),
    }


def _one(profile: Profile, accept_length: float | None, tax: float, rng: Random) -> Mapping[Path, JumpEngine]:
    speculative, baseline = _modes(profile, accept_length)
    modes: Sequence[Mode] = (speculative, Mode(baseline.speed, 1.0, tax))
    return {Path.SPECULATIVE: JumpEngine(modes, rng)}
