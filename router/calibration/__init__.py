"""Calibration files: what `spec-router calibrate` writes and the policy, replay and advise read."""

from router.calibration.file import dump_calibration, load_calibration
from router.calibration.reader import CalibrationError

__all__ = ["CalibrationError", "dump_calibration", "load_calibration"]
