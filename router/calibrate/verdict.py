"""The verdict on a pair: how far speculation pays, said in one sentence, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from router.calibrate.derive import AtLength, Derived
from router.calibrate.reasons import examples, reach, reasons
from router.calibrate.words import percent
from router.core.bootstrap import Interval
from router.core.calibration import Crossover, Reach
from router.core.words import Placement

# The low watermark is half the crossover: a crossover that is farther off than that makes the band wrong.
FACTOR = 2.0


class Kind(StrEnum):
    """What can be said."""

    REFUSED = "refused"  # the measurement must not be used
    UNSURE = "unsure"  # it says too little
    NEVER = "never"  # speculation pays nowhere
    PART = "part"  # up to the crossover
    ALWAYS = "always"  # at every load that was measured


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence, and what it rests on."""

    kind: Kind
    sentence: str
    reasons: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether thresholds may be taken from it."""
        return self.kind not in (Kind.REFUSED, Kind.UNSURE)


def refused(why: tuple[str, ...]) -> Verdict:
    """The verdict on a measurement that must not be used."""
    many = "one reason" if len(why) == 1 else f"{len(why)} reasons"
    return Verdict(Kind.REFUSED, f"No thresholds follow from this measurement, for {many}.", why)


def judge(derived: Derived) -> Verdict:
    """The verdict at the sweep's accept length."""
    kind = _kind(derived.at, derived.calibration.limit)
    return Verdict(kind, _sentence(kind, derived), reasons(derived, longer=kind is Kind.UNSURE))


def _kind(at: AtLength, limit: int) -> Kind:
    if at.interval.unknown or too_wide(at.crossover, at.interval, limit):
        return Kind.UNSURE
    return {Reach.NONE: Kind.NEVER, Reach.PART: Kind.PART, Reach.ALWAYS: Kind.ALWAYS}[at.crossover.reach]


def too_wide(crossover: Crossover, interval: Interval, limit: int) -> bool:
    """Whether a bound of the interval is more than `FACTOR` away from the crossover.

    Below one request and above the largest measured concurrency there is nothing to decide.
    """
    low, middle, high = (min(max(1.0, n), limit) for n in (interval.low, crossover.n, interval.high))
    return middle > FACTOR * low or high > FACTOR * middle


def _sentence(kind: Kind, derived: Derived) -> str:
    at, limit = derived.at, derived.calibration.limit
    length = f"at accept length {at.accept_length:.2f}"
    if kind is Kind.PART:
        return (
            f"Speculation pays up to about {at.crossover.n:.3g} requests in flight "
            f"({within(at.interval, limit)}) {length}; above that the baseline does."
        )
    if kind is Kind.ALWAYS:
        return (
            f"Speculation pays at every load that was measured, up to {limit} requests in flight, {length}."
        )
    if kind is Kind.NEVER:
        apart = derived.calibration.key.placement is Placement.SEPARATE
        means = "its GPUs would do more with a second baseline" if apart else "use the baseline alone"
        gains = ", ".join(f"{percent(load.gain, sign=True)} at {load.n}" for load in examples(derived.loads))
        return f"Speculation pays nowhere {length}: {means}. Throughput: {gains} requests in flight."
    return (
        f"How far speculation pays is not known well enough for thresholds: {reach(at.crossover)} "
        f"{length}, but with a {within(at.interval, limit)}. Measure longer."
    )


def within(interval: Interval, limit: int) -> str:
    """The interval in words."""
    low = f"{interval.low:.3g}" if interval.low > 0 else "nowhere"
    high = f"{interval.high:.3g}" if interval.high > 0 else "nowhere"
    if interval.high >= limit:
        high = f"{limit} or more"
    if math.isclose(interval.low, interval.high, rel_tol=1e-3):
        return f"90 % interval: {high} throughout"
    return f"90 % interval from {low} to {high}"
