"""How many times slower than calibrated an engine is, learned from moments in which nothing else slows it.

A sample counts only when the path has been undisturbed for some seconds (on shared GPUs: the other one idle)
and its load is steady. A factor stays within ½…2 and moves by 5 % a minute at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from router.core.calibration import Calibration
from router.core.live import PathLive
from router.core.load import finite
from router.core.traffic import told
from router.core.words import Path

# An engine's rate is that of its last 5 seconds, so these are the first that no other work has touched.
WARM = 10.0
LEVEL_SMOOTHING = 2.5
STEADY_SHARE = 0.25
LEAST_ACCEPT = 1.2
# An engine that spends more of its time than this on prompts says nothing of how fast it decodes.
MOST_PREFILL = 0.8
LEAST_SAMPLES = 5
SAMPLE_WEIGHT = 0.1
SAMPLE_CLIP = 0.3
WIDEST = math.log(2.0)
PACE = math.log(1.05) / 60.0
LONGEST_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How many times slower an engine is than calibrated, as logarithms.

    Attributes:
        log: the factor in use.
        target: what the samples say.
        samples: how many there were.
        at: time of the reading of the last sample.
    """

    log: float = 0.0
    target: float = 0.0
    samples: int = 0
    at: float | None = None

    @property
    def factor(self) -> float:
        """The factor in use: above 1 is slower than calibrated."""
        return math.exp(self.log)

    def take(self, ratio: float, at: float) -> Scale:
        """With one sample: calibrated over measured throughput.

        An outlier pulls no harder than `SAMPLE_CLIP`.
        """
        pull = max(-SAMPLE_CLIP, min(SAMPLE_CLIP, math.log(ratio) - self.target))
        target = max(-WIDEST, min(WIDEST, self.target + SAMPLE_WEIGHT * pull))
        moved = replace(self, target=target, samples=self.samples + 1, at=at)
        if moved.samples < LEAST_SAMPLES or self.at is None:
            return moved
        most = PACE * min(LONGEST_PAUSE, at - self.at)
        return replace(moved, log=self.log + max(-most, min(most, target - self.log)))


@dataclass(frozen=True, slots=True)
class Watch:
    """How undisturbed and how steady a path works.

    Attributes:
        since: time from which on it has had requests and nothing has slowed them; None: it has not.
        level: its smoothed number of requests.
        active: its number of requests at the last look.
    """

    since: float | None = None
    level: float = 0.0
    active: int = 0

    def look(self, active: int, now: float, passed: float, *, disturbed: bool) -> Watch:
        """With what is to be seen now, `passed` seconds after the last look."""
        if not active or disturbed:
            return IDLE
        if self.since is None:
            return Watch(now, float(active), active)
        kept = math.exp(-passed / LEVEL_SMOOTHING)
        return Watch(self.since, self.active + (self.level - self.active) * kept, active)

    @property
    def steady(self) -> bool:
        """True if the load has been about what it is now."""
        return abs(self.active - self.level) <= max(1.0, STEADY_SHARE * self.level)


IDLE = Watch()


@dataclass(frozen=True, slots=True)
class Engine:
    """What is learned of one engine."""

    scale: Scale = Scale()
    watch: Watch = IDLE

    def look(self, live: PathLive, now: float, passed: float, *, disturbed: bool) -> Engine:
        """With what is to be seen of its load; see `Watch.look`."""
        if self.watch is IDLE and not live.active:
            return self
        return Engine(self.scale, self.watch.look(live.active, now, passed, disturbed=disturbed))

    def take(self, live: PathLive, now: float, gain: float, path: Path, calibration: Calibration) -> Engine:
        """With what the reading says of its speed, if this moment teaches anything."""
        if self.watch.since is None or live.at is None or live.at == self.scale.at:
            return self  # most looks end here
        ratio = _ratio(self.scale, self.watch, live, now, gain, path, calibration)
        return self if ratio is None else Engine(self.scale.take(ratio, now), self.watch)


UNSEEN = Engine()


def _ratio(
    scale: Scale, watch: Watch, live: PathLive, now: float, gain: float, path: Path, calibration: Calibration
) -> float | None:
    """Calibrated over measured throughput, the time for prompts left out; None if this teaches nothing."""
    rate, at = finite(live.tokens_per_second), finite(live.at)
    if rate is None or at is None or rate <= 0 or watch.since is None or not watch.steady:
        return None
    if not watch.since + WARM <= at <= now or (scale.at is not None and at <= scale.at):
        return None
    if path is Path.SPECULATIVE and gain < LEAST_ACCEPT:
        return None
    if watch.level > calibration.path(path).curve.last:
        return None  # nobody measured that; requests may well queue in the engine
    beyond = max(0.0, told(live.prefilled_per_second) - rate * calibration.workload.mix)
    share = beyond * calibration.path(path).prefill_seconds_per_token
    if share >= MOST_PREFILL:
        return None
    return calibration.tokens_per_second(path, max(1.0, watch.level), gain) * (1.0 - share) / rate
