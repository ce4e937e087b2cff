"""The section `launch.start`: how engines are started, watched and stopped. Durations are seconds."""

from __future__ import annotations

from typing import Annotated

from router.config.fields import FileName, whole
from router.config.section import Section
from router.config.units import Duration, PositiveDuration


class Restart(Section):
    """What happens to an engine that was up and died."""

    delay: Duration = 1.0
    longest_delay: Duration = 60.0
    attempts: Annotated[int, whole(0, 1000)] = 5
    stable: PositiveDuration = 600.0


class Start(Section):
    """How engines are started, watched and stopped."""

    folder: FileName = None
    stall: PositiveDuration = 900.0
    settle: PositiveDuration = 5.0
    stop: Duration = 10.0
    restart: Restart = Restart()
