"""From a sweep of both engines to a calibration, a verdict and a report."""
