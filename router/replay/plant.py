"""Engines for a replay: as they are, and as they are calibrated."""

from __future__ import annotations

from router.core.calibration import Calibration
from router.core.words import Placement
from router.sim.calibrated import calibration_of
from router.sim.profiles import load_engines
from router.sim.speed import Profile


def load_plant(name: str, placement: Placement) -> tuple[Profile, Calibration]:
    """The engines as they are and as they are calibrated, from a profile's name or a file of either kind.

    Raises:
        ProfileError: the file cannot be used.
    """
    profile, calibration = load_engines(name)
    return profile, calibration or calibration_of(profile, placement)
