"""Calibration files: what was measured of both engines, for the policy, replay and advise."""

from router.calibration.file import (
    calibration_in,
    dump_calibration,
    is_calibration,
    load_calibration,
)
from router.calibration.reader import CalibrationError

__all__ = ["CalibrationError", "calibration_in", "dump_calibration", "is_calibration", "load_calibration"]
