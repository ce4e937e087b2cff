"""Simulated engines and calibrations, each made of the other.

Both say how long a step takes by batch size. What only one of them knows is taken as it is on an H200: a
calibration has no number of drafts and no running limit that it must state, a profile no drains.
"""

from __future__ import annotations

from router.core.calibration import Calibration, Cell, Key, MixedCell, PathCalibration, Workload
from router.core.words import Path, Placement
from router.sim.speed import Curve, EngineSpeed, Profile

# A head's drafts are not in a calibration; the spread of a step's tokens hardly depends on them.
LEAST_DRAFTS = 3
RUNNING = 256
# The load at which a profile's mixed fraction is put down: it is the same at all.
MIXED_AT = 8


def profile_of(calibration: Calibration, name: str) -> Profile:
    """Engines that are as fast as calibrated."""
    return Profile(name, _speed(calibration, Path.SPECULATIVE), _speed(calibration, Path.BASELINE))


def _speed(calibration: Calibration, path: Path) -> EngineSpeed:
    measured = calibration.path(path)
    speculative = path is Path.SPECULATIVE
    gain = calibration.accept_length if speculative else 1.0
    return EngineSpeed(
        Curve(measured.curve.points),
        accept_length=gain,
        draft_steps=max(LEAST_DRAFTS, int(gain) + 1) if speculative else 0,
        prefill_base=0.0,  # a sweep cannot tell it from the step that it rides on
        prefill_per_token=measured.prefill_seconds_per_token,
        mixed_fraction=calibration.mixed_fraction(path),
        max_running_requests=measured.max_running_requests or RUNNING,
    )


def calibration_of(
    profile: Profile, placement: Placement = Placement.SHARED, workload: Workload | None = None
) -> Calibration:
    """What a sweep without noise would say of these engines."""
    return Calibration(
        Key(model=profile.name, placement=placement),
        _measured(profile.speculative, speculative=True),
        _measured(profile.baseline, speculative=False),
        (_together(profile),),
        workload or Workload(),
    )


def _measured(speed: EngineSpeed, *, speculative: bool) -> PathCalibration:
    cells = (
        Cell(batch, (speed.tokens_per_second(batch),), (speed.accept_length,) if speculative else ())
        for batch, _ in speed.steps.points
    )
    return PathCalibration(
        tuple(cells), speed.prefill_per_token, max_running_requests=speed.max_running_requests
    )


def _together(profile: Profile) -> MixedCell:
    rates = (
        speed.tokens_per_second(MIXED_AT) * speed.mixed_fraction
        for speed in (profile.baseline, profile.speculative)
    )
    return MixedCell(MIXED_AT, MIXED_AT, *rates)
