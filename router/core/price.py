"""What a switch gains and what it costs, in seconds of the work that the pair does now."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from router.core.calibration import Calibration
from router.core.words import Path

_HALVINGS = 16


@dataclass(frozen=True, slots=True)
class Price:
    """What a switch costs.

    Attributes:
        drain: seconds that the old path still works, and the pair is mixed.
        seconds: the work that is lost meanwhile, the re-prefill included.
    """

    drain: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Tariff:
    """Gains and prices of a calibrated pair.

    Attributes:
        calibration: how fast each engine is alone.
        fractions: shares of their speed that speculative and baseline keep while the pair is mixed.
    """

    calibration: Calibration
    fractions: tuple[float, float]
    # By whole n, which is what is asked for at every request: hurdles from 1, step times from 0 to the limit.
    _hurdles: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _steps: tuple[tuple[float, ...], tuple[float, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = self.calibration
        sizes = range(known.limit + 1)
        steps = tuple(tuple(known.step_seconds(path, n) for n in sizes) for path in Path)
        object.__setattr__(self, "_hurdles", tuple(math.log(ratio) for ratio in known.break_even))
        object.__setattr__(self, "_steps", steps)

    def hurdle(self, n: float, effective: float = 1.0, mix: float = 0.0) -> float:
        """Logarithm of the break-even accept length at n requests.

        With prompts the accept length moves only a part of the time, and what counts as one is what gives the
        same gain at n requests: log(effective) - hurdle is the logarithm of the ratio of throughputs.
        """
        n = min(max(1, n), len(self._hurdles))
        if mix:
            ratio = self.rate(Path.SPECULATIVE, n, effective, mix) / self.rate(Path.BASELINE, n, 1.0, mix)
            return math.log(effective / ratio)
        return self._hurdles[n - 1] if isinstance(n, int) else math.log(self.calibration.break_even_at(n))

    def rate(self, path: Path, n: float, effective: float, mix: float = 0.0) -> float:
        """Tokens per second of the path alone at n requests; `mix`: see `Calibration.tokens_per_second`."""
        if not isinstance(n, int) or n > len(self._hurdles):
            return self.calibration.tokens_per_second(path, n, effective, mix)
        speculative = path is Path.SPECULATIVE
        found = n * effective / self._steps[0][n] if speculative else n / self._steps[1][n]
        return self.calibration.mixed_in(path, found, mix)

    def settles_at(self, path: Path, demand: float, effective: float, mix: float = 0.0) -> float:
        """The requests in flight with which the path gives `demand` tokens per second; at most the limit.

        Arrivals that do not wait for answers ask for the same tokens of either engine, and each holds as many
        requests as it needs to give them.
        """
        low, high = 0.0, float(self.calibration.limit)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.rate(path, middle, effective, mix) < demand:
                low = middle
            else:
                high = middle
        return high

    def price(self, to: Path, n: int, on_old: int, effective: float, mix: float = 0.0) -> Price:
        """What it costs to go to the path now.

        While the old path drains both run at their mixed fractions; over that time half of its requests are
        left on average, and their successors are on the new path. The conversations of the old path
        have their prefixes there and are computed anew.

        Args:
            n: requests in flight.
            on_old: those of them that are active on the path which is left.
        """
        if on_old <= 0:
            return Price(0.0, 0.0)
        old, n = to.other, max(n, on_old)
        drain = self.calibration.drain_seconds(old, on_old)
        left = on_old / 2
        together = self.rate(old, left, effective, mix) * self._fraction(old)
        together += self.rate(to, n - left, effective, mix) * self._fraction(to)
        lost = max(0.0, 1.0 - together / self.rate(old, n, effective, mix))
        prefill = self.calibration.path(to).prefill_seconds_per_token
        again = on_old * self.calibration.workload.prompt_tokens * prefill
        return Price(drain, lost * drain + again)

    def _fraction(self, path: Path) -> float:
        return self.fractions[0 if path is Path.SPECULATIVE else 1]


def gain(to: Path, effective: float, hurdle: float) -> float:
    """Relative gain in throughput of going to the path; negative: a loss.

    Args:
        effective: the accept length, corrected by how fast the engines are.
        hurdle: see `Tariff.hurdle`.
    """
    edge = math.log(effective) - hurdle
    return math.expm1(edge if to is Path.SPECULATIVE else -edge)
