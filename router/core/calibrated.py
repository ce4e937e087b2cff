"""The policy that knows the break-even: where speculation stops to pay, at the accept length of now.

It holds N against a band around the crossover N*, and N* follows the live accept length and how fast the
engines really are (`router.core.learned`). Two rules ask for a change of the path:

* **band**: N ≥ 1.25 N* goes up at once; smoothed N ≤ low comes back after the dwell. Only if the gain over
  the time for which load is expected to want the other path beats the price of the switch. What will be
  gained is judged by the demand of the last minute, for a burst or a lull is soon over.
* **regret**: staying on the worse path costs a little all the time, to each request in flight. Once that
  has added up to the price of a switch, switching was the better choice, however near to the crossover it is.

What prompts take of an engine's time is no time for decoding, whichever engine it is: gains, watermarks and
prices are those of the mix of prompts and answers that the engines report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from router.core.band import Band, Z, band
from router.core.calibration import Calibration, Reach
from router.core.learned import ACCEPT_SETTLES, Learned, learn
from router.core.policy import Inputs, PolicyState, Snapshot, Switch, observe_n, settle
from router.core.price import Price, Tariff, gain
from router.core.words import Path, SwitchReason

VERSION = "calibrated/2"

# A gain smaller than this is within the noise of the accept length and counts as none.
LEAST_GAIN = 0.02
# Seconds of work that a switch must be worth, however cheap it seems.
LEAST_PRICE = 2.0
# So many times the price lost, the load is there to stay, whatever earlier stays were like.
PATIENCE = 3.0
# Seconds over which the mean demand forgets.
MEMORY = 120.0
# A share by which the accept length must have moved for the watermarks to be computed anew.
GRAIN = 0.001
# The same of the mix of prompts, which moves far less.
MIX_GRAIN = 0.05
FREE = Price(0.0, 0.0)
LONGEST_STAY = 3600.0
STAY_WEIGHT = 0.5
# A return to speculation that ends within so many dwells was a trial; one that lasts longer was right.
TRIAL = 3.0
TRUST = 10.0
DISAPPOINTED = 0.98


@dataclass(frozen=True, slots=True)
class CalibratedPolicy:
    """See the module.

    Attributes:
        calibration: of these two engines.
        smoothing: time constant in seconds of the smoothing of N.
        half_life: seconds in which half of what the live accept length said beyond the prior is forgotten.
        least_dwell: of `dwell`, which is as long as a drain may take.
        dwell: least seconds between a switch and the next one down.
        prior: the accept length of the calibration.
    """

    calibration: Calibration
    smoothing: float = 2.0
    half_life: float = 300.0
    least_dwell: float = 0.0
    dwell: float = field(init=False)
    prior: float = field(init=False, repr=False, compare=False)
    tariff: Tariff = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.smoothing >= 0 or not self.half_life > 0:
            raise ValueError("smoothing must not be negative, and half_life must be above 0")
        fractions = tuple(self.calibration.mixed_fraction(path) for path in Path)
        object.__setattr__(self, "dwell", max(self.least_dwell, self.calibration.dwell()))
        object.__setattr__(self, "prior", self.calibration.accept_length)
        object.__setattr__(self, "tariff", Tariff(self.calibration, (fractions[0], fractions[1])))

    @property
    def kind(self) -> str:
        """See `Policy.kind`."""
        return "calibrated"

    @property
    def first_path(self) -> Path:
        """Speculative, unless the calibration says that it never wins."""
        never = self.calibration.crossover(self.calibration.accept_length).reach is Reach.NONE
        return Path.BASELINE if never else Path.SPECULATIVE

    def step(self, state: PolicyState, seen: Snapshot) -> tuple[PolicyState, Switch | None]:
        """See `Policy.step`."""
        passed = 0.0 if state.seen_at is None else max(0.0, seen.now - state.seen_at)
        learned = self._learn(state, seen, passed)
        state = observe_n(state, seen, self.smoothing, learned)
        dwelt = state.switched_at is None or seen.now - state.switched_at >= self.dwell
        rule, price = self._rule(state, seen, learned, dwelt)
        inputs = None
        if rule:
            inputs = self._inputs(seen, learned, rule, price, state.regime.other)
            turned = self._turned(state, seen, learned)
            state = replace(state, regime=state.regime.other, learned=turned)
        reason = SwitchReason.HIGH if state.regime is Path.BASELINE else SwitchReason.LOW
        return settle(state, seen, dwelt=dwelt, reason=reason, inputs=inputs)

    def accept_length(self, learned: Learned, now: float) -> float:
        """The accept length that decides: the live one, aged towards that of the calibration."""
        return learned.accept.used(now, self.prior, self.half_life)

    def _learn(self, state: PolicyState, seen: Snapshot, passed: float) -> Learned:
        """What is known after this snapshot: measurements, watermarks, gain and regret."""
        learned = state.learned or Learned(regime_since=seen.now)
        settled_at = 0.0
        if state.active is Path.SPECULATIVE and state.switched_at is not None:
            settled_at = state.switched_at + ACCEPT_SETTLES
        learned = learn(
            learned, seen.live, seen.now, self.calibration, settled_at=settled_at, excess=seen.excess
        )
        if learned.returned_with is not None and self._in_regime(learned, seen.now) > TRUST * self.dwell:
            accept = replace(learned.accept, doubts=0)
            learned = replace(learned, accept=accept, returned_with=None)
        # What was to be seen at the last look held until now.
        lost = 0.0
        if learned.rate > 0.0:
            lost = gain(state.regime.other, learned.effective, learned.hurdle) - LEAST_GAIN
        demand, usual, watched = learned.demand, learned.usual, learned.watched
        if passed and not seen.live.mixed:
            # A plain mean at first, so that what came before the first look does not count.
            watched = min(MEMORY, watched + passed)
            share = min(1.0, passed / watched)
            demand += (learned.rate - demand) * share
            usual += (state.last_n - usual) * share
        # A second is lost by everybody who waits in a burst; a lull does not make it forget.
        lost *= max(1.0, state.last_n / max(1.0, usual))
        learned = self.marked(learned, seen.now)
        return learned.reckoned(
            regret=0.0 if state.detour else max(0.0, learned.regret + lost * passed),
            hurdle=self.tariff.hurdle(seen.n, learned.effective, learned.mix),
            rate=self.tariff.rate(
                state.active, min(seen.n, self.calibration.limit), learned.effective, learned.mix
            ),
            demand=demand,
            usual=usual,
            watched=watched,
        )

    def marked(self, learned: Learned, now: float) -> Learned:
        """With the watermarks for the accept length of now."""
        effective, mix = self._effective(learned, now), learned.traffic.mix(self.calibration.workload)
        same = abs(effective - learned.effective) <= GRAIN * effective
        if learned.band is not None and same and abs(mix - learned.mix) <= MIX_GRAIN * mix:
            return learned
        marks = band(self.calibration, effective, mix=mix)
        return replace(learned, band=marks, effective=effective, mix=mix)

    def _effective(self, learned: Learned, now: float) -> float:
        """The accept length that engines as fast as calibrated would need for the same advantage."""
        return self.accept_length(learned, now) * math.exp(
            learned.baseline.scale.log - learned.speculative.scale.log
        )

    def _rule(
        self, state: PolicyState, seen: Snapshot, learned: Learned, dwelt: bool
    ) -> tuple[str | None, Price]:
        """The rule that asks for the other regime, if one does, and what the switch would cost."""
        marks = learned.band
        up = state.regime is Path.SPECULATIVE
        to = state.regime.other
        if marks is None or not (up or dwelt):
            return None, FREE
        beyond = _above(marks, seen.n) if up else _below(marks, state.smoothed_n, seen.n)
        if not (beyond or learned.regret >= LEAST_PRICE):
            return None, FREE
        if gain(to, learned.effective, learned.hurdle) <= 0:
            return None, FREE
        if not seen.n:
            return "band", FREE  # nothing to drain, and nothing to wait for
        price = self.tariff.price(
            to, seen.n, seen.live.of(state.regime).active, learned.effective, learned.mix
        )
        least = max(LEAST_PRICE, price.seconds)
        if learned.regret >= PATIENCE * least:
            return "regret", price
        if self._forecast(to, seen.n, learned) * (learned.stay(to) - price.drain) < least:
            return None, price
        if beyond:
            return "band", price
        return ("regret" if learned.regret >= least else None), price

    def _forecast(self, to: Path, n: int, learned: Learned) -> float:
        """The relative gain that going to the path will bring.

        It is that at the load with which the path meets the demand of the last minutes: a burst or a lull is
        soon over. But overload must be met at once, so going up the load of now counts as well: each of the
        two by its requests, as far as they are more than the noise of a steady load.
        """
        settled = self.tariff.settles_at(to, learned.demand, learned.effective, learned.mix)
        lasting = gain(to, learned.effective, self.tariff.hurdle(settled, learned.effective, learned.mix))
        if to is Path.SPECULATIVE:
            return lasting
        sure = max(settled, n - Z * math.sqrt(n))
        return (sure * gain(to, learned.effective, learned.hurdle) + settled * lasting) / (sure + settled)

    def _turned(self, state: PolicyState, seen: Snapshot, learned: Learned) -> Learned:
        """What is remembered when the regime changes."""
        lasted = min(LONGEST_STAY, max(self.dwell, self._in_regime(learned, seen.now)))
        stays = list(learned.stays)
        place = 0 if state.regime is Path.SPECULATIVE else 1
        stays[place] = math.exp((1 - STAY_WEIGHT) * math.log(stays[place]) + STAY_WEIGHT * math.log(lasted))
        used = self.accept_length(learned, seen.now)
        turned = replace(learned, stays=(stays[0], stays[1]), regime_since=seen.now, regret=0.0)
        if state.regime is Path.BASELINE:
            return replace(turned, returned_with=used)
        tried, turned = learned.returned_with, replace(turned, returned_with=None)
        short = self._in_regime(learned, seen.now) <= TRIAL * self.dwell
        if tried is None or not short or used >= DISAPPOINTED * tried:
            return turned
        return replace(turned, accept=learned.accept.doubted())

    def _in_regime(self, learned: Learned, now: float) -> float:
        return now - (now if learned.regime_since is None else learned.regime_since)

    def _inputs(self, seen: Snapshot, learned: Learned, rule: str, price: Price, to: Path) -> Inputs:
        marks = learned.band or band(self.calibration, learned.effective, mix=learned.mix)
        return Inputs(
            policy=VERSION,
            rule=rule,
            accept_length=self.accept_length(learned, seen.now),
            accept_length_age=learned.accept.age(seen.now),
            scale_speculative=learned.speculative.scale.factor,
            scale_baseline=learned.baseline.scale.factor,
            crossover=marks.crossover.n,
            high=marks.high,
            low=marks.low,
            gain=gain(to, learned.effective, learned.hurdle),
            forecast=self._forecast(to, seen.n, learned),
            stay=learned.stay(to),
            price=price.seconds,
            drain=price.drain,
            regret=learned.regret,
        )


def _above(marks: Band, n: int) -> bool:
    """Whether the load is high enough to go up; never where speculation always wins."""
    return marks.high is not None and n >= marks.high


def _below(marks: Band, smoothed: float, n: int) -> bool:
    """Whether the load is low enough to come back; never where speculation never wins."""
    return marks.low is not None and smoothed <= marks.low and n <= marks.low
