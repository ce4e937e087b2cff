"""What the calibrated policy has learned from live measurements, and how it learns.

* The accept length, from the speculative engine while it has requests of ours. While it has none, the
  value ages towards the calibrated prior with a half-life. A return to speculation that the measurement
  then disappoints doubles the half-life, so that a workload which speculates badly for good is tried ever
  more rarely; a return that lasts takes that back.
* Two factors, one per path: how many times slower the engine is than calibrated. A sample counts only when
  the path has been undisturbed for some seconds (on shared GPUs: the other one idle), its load is steady, no
  breaker has opened lately and nobody else uses the engine. A factor stays within ½…2 and moves by 5 % a
  minute at most.

Values that are missing, not finite, or seen before teach nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from router.core.band import Band
from router.core.calibration import Calibration
from router.core.live import Live, PathLive
from router.core.load import finite
from router.core.words import Path, Placement

# Seconds of smoothing: an engine's own accept length covers 40 steps and is noisy with few requests.
ACCEPT_SMOOTHING = 3.0
# After a switch the engine's value is still that of its last requests, for about 40 steps.
ACCEPT_SETTLES = 3.0
ACCEPT_MOST = 64.0
MOST_DOUBTS = 6

# An engine's rate is that of its last 5 seconds, so these are the first that no other work has touched.
WARM = 10.0
LEVEL_SMOOTHING = 2.5
STEADY_SHARE = 0.25
CALM_AFTER_FAULT = 60.0
LEAST_ACCEPT = 1.2
LEAST_SAMPLES = 5
SAMPLE_WEIGHT = 0.1
SAMPLE_CLIP = 0.3
WIDEST = math.log(2.0)
PACE = math.log(1.05) / 60.0
LONGEST_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class AcceptLength:
    """The accept length as last measured.

    Attributes:
        value: smoothed; None before the first sample.
        at: time of the last sample.
        doubts: returns to speculation that the measurement disappointed.
    """

    value: float | None = None
    at: float | None = None
    doubts: int = 0

    def take(self, live: PathLive, now: float, settled_at: float) -> AcceptLength:
        """With the reading, if it says something new of requests of ours that began before `settled_at`."""
        if not live.active or live.at == self.at:
            return self
        value, at = finite(live.accept_length), finite(live.at)
        if value is None or at is None or not 1.0 <= value <= ACCEPT_MOST:
            return self
        if at > now or at < settled_at or (self.at is not None and at <= self.at):
            return self
        if self.value is None or self.at is None:
            return replace(self, value=value, at=at)
        weight = 1.0 - math.exp(-(at - self.at) / ACCEPT_SMOOTHING)
        return replace(self, value=self.value + weight * (value - self.value), at=at)

    def doubted(self) -> AcceptLength:
        """After a return to speculation that the measurement disappointed."""
        return replace(self, doubts=min(MOST_DOUBTS, self.doubts + 1))

    def age(self, now: float) -> float | None:
        """Seconds since the last sample; None before the first."""
        return None if self.at is None else max(0.0, now - self.at)

    def used(self, now: float, prior: float, half_life: float) -> float:
        """The accept length to decide with: the measured one, aged towards the prior."""
        age = self.age(now)
        if self.value is None or age is None:
            return prior
        halvings = age / math.ldexp(half_life, self.doubts)
        return prior + (self.value - prior) * math.exp2(-halvings)


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


@dataclass(frozen=True, slots=True)
class Learned:
    """What the calibrated policy remembers beside the active path.

    Attributes:
        accept: the accept length.
        speculative, baseline: the two engines.
        looked_at: time of the last look.
        calm_at: no sample counts before, for a breaker opened; None: none has.
        faults: breaker openings seen so far.
        band: the watermarks at `effective`; None before the first step.
        effective: the accept length that they are for.
        hurdle: logarithm of the break-even accept length at the load of the last look.
        rate: tokens per second that the active path gives at that load, as calibrated.
        demand: its mean over the last seconds, `watched` of them so far.
        regret: what staying has cost so far, in seconds of work.
        regime_since: since when load asks for the present path.
        returned_with: the accept length at the last return to speculation.
        stays: mean seconds that load asked for speculation, and for baseline.
    """

    accept: AcceptLength = AcceptLength()
    speculative: Engine = Engine()
    baseline: Engine = Engine()
    looked_at: float | None = None
    calm_at: float | None = None
    faults: int = 0
    band: Band | None = None
    effective: float = 0.0
    hurdle: float = 0.0
    rate: float = 0.0
    demand: float = 0.0
    watched: float = 0.0
    regret: float = 0.0
    regime_since: float | None = None
    returned_with: float | None = None
    stays: tuple[float, float] = (60.0, 60.0)

    def reckoned(
        self, *, hurdle: float, rate: float, demand: float, watched: float, regret: float
    ) -> Learned:
        """With other numbers for these; spelled out, for `replace` takes three times as long."""
        return Learned(
            self.accept,
            self.speculative,
            self.baseline,
            self.looked_at,
            self.calm_at,
            self.faults,
            self.band,
            self.effective,
            hurdle,
            rate,
            demand,
            watched,
            regret,
            self.regime_since,
            self.returned_with,
            self.stays,
        )

    def scale(self, path: Path) -> Scale:
        """How many times slower than calibrated the path's engine is."""
        return (self.speculative if path is Path.SPECULATIVE else self.baseline).scale

    def stay(self, path: Path) -> float:
        """Seconds that load is expected to ask for the path once it does."""
        return self.stays[0 if path is Path.SPECULATIVE else 1]


def learn(
    learned: Learned,
    live: Live,
    now: float,
    calibration: Calibration,
    *,
    settled_at: float,
    excess: int,
) -> Learned:
    """Take in what is measured now.

    Args:
        settled_at: no accept length from before; some seconds after the last switch.
        excess: requests on the engines that are not ours; with them no throughput says anything.
    """
    accept = learned.accept.take(live.speculative, now, settled_at)
    passed = 0.0 if learned.looked_at is None else max(0.0, now - learned.looked_at)
    calm_at = learned.calm_at if live.faults == learned.faults else now + CALM_AFTER_FAULT
    may = not excess and (calm_at is None or now >= calm_at)
    disturbed = calibration.key.placement is not Placement.SEPARATE and live.mixed
    speculative = learned.speculative.look(live.speculative, now, passed, disturbed=disturbed)
    baseline = learned.baseline.look(live.baseline, now, passed, disturbed=disturbed)
    if may:
        gain = accept.value or 0.0
        speculative = speculative.take(live.speculative, now, gain, Path.SPECULATIVE, calibration)
        baseline = baseline.take(live.baseline, now, 1.0, Path.BASELINE, calibration)
    return Learned(
        accept,
        speculative,
        baseline,
        now,
        calm_at,
        live.faults,
        learned.band,
        learned.effective,
        learned.hurdle,
        learned.rate,
        learned.demand,
        learned.watched,
        learned.regret,
        learned.regime_since,
        learned.returned_with,
        learned.stays,
    )


def _ratio(
    scale: Scale, watch: Watch, live: PathLive, now: float, gain: float, path: Path, calibration: Calibration
) -> float | None:
    """Calibrated over measured throughput; None if this moment teaches nothing."""
    rate, at = finite(live.tokens_per_second), finite(live.at)
    if rate is None or at is None or rate <= 0 or watch.since is None or not watch.steady:
        return None
    if not watch.since + WARM <= at <= now or (scale.at is not None and at <= scale.at):
        return None
    if path is Path.SPECULATIVE and gain < LEAST_ACCEPT:
        return None
    if watch.level > calibration.path(path).curve.last:
        return None  # nobody measured that; requests may well queue in the engine
    return calibration.tokens_per_second(path, max(1.0, watch.level), gain) / rate
