"""Stand-ins that tests of several layers share."""

from tests.support.clock import FakeClock
from tests.support.observer import RecordingObserver

__all__ = ["FakeClock", "RecordingObserver"]
