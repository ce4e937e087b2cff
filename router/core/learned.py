"""What the calibrated policy has learned from live measurements, and how it learns.

* The accept length, from the speculative engine while it has requests of ours. While it has none, the
  value ages towards the calibrated prior with a half-life. A return to speculation that the measurement
  then disappoints doubles the half-life, so that a workload which speculates badly for good is tried ever
  more rarely; a return that lasts takes that back.
* Two factors, one per path: how many times slower the engine is than calibrated (`router.core.pace`). No
  sample counts for a while after a breaker opened, or while somebody else uses the engine.
* How much of the work is prompts (`router.core.traffic`).

Values that are missing, not finite, or seen before teach nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from router.core.band import Band
from router.core.calibration import Calibration
from router.core.live import Live, PathLive
from router.core.load import finite
from router.core.pace import UNSEEN, Engine, Scale
from router.core.traffic import QUIET, Traffic
from router.core.words import Path, Placement

# Seconds of smoothing: an engine's own accept length covers 40 steps and is noisy with few requests.
ACCEPT_SMOOTHING = 3.0
# After a switch the engine's value is still that of its last requests, for about 40 steps.
ACCEPT_SETTLES = 3.0
ACCEPT_MOST = 64.0
MOST_DOUBTS = 6
CALM_AFTER_FAULT = 60.0


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
        usual: the mean of N over the same seconds.
        regret: what staying has cost so far, in seconds of work of the usual number of requests.
        regime_since: since when load asks for the present path.
        returned_with: the accept length at the last return to speculation.
        stays: mean seconds that load asked for speculation, and for baseline.
        traffic: prompt and output tokens of both engines.
        mix: prompt tokens for each output token that `band` is for.
    """

    accept: AcceptLength = AcceptLength()
    speculative: Engine = UNSEEN
    baseline: Engine = UNSEEN
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
    traffic: Traffic = QUIET
    mix: float = 0.0
    usual: float = 0.0

    def reckoned(
        self, *, hurdle: float, rate: float, demand: float, usual: float, watched: float, regret: float
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
            self.traffic,
            self.mix,
            usual,
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
        learned.traffic.look(live, passed),
        learned.mix,
        learned.usual,
    )
