"""What a sweep of both engines says: step times, break-even accept length, crossover.

Symbols: n requests decode at a time, t(n) is the time of a step of the baseline, c(n) of a draft-and-verify
cycle, a the accept length (tokens that a request gains per cycle).

    throughput              T_B(n) = n / t(n)          T_S(n) = a·n / c(n)
    break-even accept length  a*(n) = c(n) / t(n)       speculation wins where a > a*(n)
    crossover                 N*(a) = the end of the range of n in which it wins
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, groupby

from router.core.arguments import Arguments, differing, listed
from router.core.curve import StepCurve, fit
from router.core.words import Path, Placement

# Where no mixed cell was measured: the shares of its speed that an engine keeps on an H200 whose other
# engine has work.
DEFAULT_FRACTIONS = {Path.BASELINE: 0.52, Path.SPECULATIVE: 0.70}
DRAIN_FLOOR = 10.0


@dataclass(frozen=True, slots=True)
class Key:
    """What a calibration was made of; it holds for nothing else. None: not known.

    Attributes:
        model: the served model's name.
        draft: the draft model's name.
        engine: version of SGLang.
        flags: a hash of the flags that decide the speed of both engines.
        placement: `shared` or `separate`.
        arguments: those flags themselves, by path. Where two keys have them, they are compared and not the
            hash, for they can say what differs, and versions of SGLang that do not have the same ones agree.
    """

    model: str | None = None
    draft: str | None = None
    engine: str | None = None
    flags: str | None = None
    placement: Placement | None = None
    arguments: Mapping[Path, Arguments] = field(default_factory=dict, hash=False)


def mismatches(made_for: Key, found: Key) -> tuple[str, ...]:
    """Why a calibration for one key does not hold for another. What either does not know is no reason."""
    named = ["model", "draft", "engine", "flags", "placement"]
    if made_for.arguments and found.arguments:
        named.remove("flags")
    pairs = ((name, getattr(made_for, name), getattr(found, name)) for name in named)
    reasons = (
        f"it was made with {name} {one}, and this is {name} {other}"
        for name, one, other in pairs
        if one is not None and other is not None and one != other
    )
    return (*reasons, *_other_arguments(made_for.arguments, found.arguments))


def _other_arguments(made: Mapping[Path, Arguments], found: Mapping[Path, Arguments]) -> Iterator[str]:
    for path in Path:
        one, other = made.get(path, {}), found.get(path, {})
        if names := differing(one, other):
            yield f"its {path} engine had {listed(one, names)}, and this one has {listed(other, names)}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One engine alone at one concurrency; one value for each repeat.

    Attributes:
        concurrency: requests held in flight.
        tokens_per_second: aggregate output tokens per second.
        accept_length: tokens per cycle and request; empty for the baseline, which gains one a step.
    """

    concurrency: int
    tokens_per_second: tuple[float, ...]
    accept_length: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.concurrency < 1 or not self.tokens_per_second:
            raise ValueError("a cell needs a concurrency from 1 and a throughput")
        if self.accept_length and len(self.accept_length) != len(self.tokens_per_second):
            raise ValueError("a cell needs an accept length for each throughput, or none")

    def steps(self) -> tuple[float, ...]:
        """Seconds of a step (of a cycle), by repeat."""
        gains = self.accept_length or (1.0,) * len(self.tokens_per_second)
        return tuple(
            self.concurrency * gain / rate for gain, rate in zip(gains, self.tokens_per_second, strict=True)
        )


@dataclass(frozen=True, slots=True)
class PathCalibration:
    """What was measured of one engine.

    Attributes:
        cells: alone, by concurrency.
        prefill_seconds_per_token: seconds of an uncached prompt token.
        drain_seconds: how long its streams went on after it got no new ones.
        max_running_requests: what it runs at a time; None: not known.
    """

    cells: tuple[Cell, ...]
    prefill_seconds_per_token: float = 0.0
    drain_seconds: tuple[float, ...] = ()
    max_running_requests: int | None = None
    curve: StepCurve = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        steps = ((cell.concurrency, seconds) for cell in self.cells for seconds in cell.steps())
        object.__setattr__(self, "curve", fit(steps))


@dataclass(frozen=True, slots=True)
class MixedCell:
    """Both engines at once on the same GPUs: concurrency and aggregate tokens per second of each."""

    baseline: int
    speculative: int
    baseline_rate: float
    speculative_rate: float


@dataclass(frozen=True, slots=True)
class Workload:
    """What was asked in the sweep: mean uncached prompt tokens and mean output tokens of a request."""

    prompt_tokens: float = 0.0
    output_tokens: float = 200.0

    @property
    def mix(self) -> float:
        """Prompt tokens for each output token."""
        return self.prompt_tokens / self.output_tokens


@dataclass(frozen=True, slots=True)
class Range:
    """Concurrencies first…last, both included."""

    first: int
    last: int


class Reach(StrEnum):
    """How far speculation wins."""

    NONE = "none"  # nowhere: baseline only
    PART = "part"  # up to a crossover
    ALWAYS = "always"  # at every concurrency that was measured


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where speculation stops to win, at one accept length.

    Attributes:
        reach: see `Reach`.
        n: N*, between two whole concurrencies; 0 for `none`, the largest measured for `always`.
        ranges: every contiguous range in which it wins.
    """

    reach: Reach
    n: float
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A sweep of both engines.

    Attributes:
        key: what it was made of.
        mixed: the split cells; empty on engines that share nothing, or where they were not measured.
        workload: what was asked.
    """

    key: Key
    speculative: PathCalibration
    baseline: PathCalibration
    mixed: tuple[MixedCell, ...] = ()
    workload: Workload = Workload()
    break_even: tuple[float, ...] = field(init=False, compare=False, repr=False)
    _baseline_rates: tuple[float, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        limit = min(self.speculative.curve.last, self.baseline.curve.last)
        ratios = tuple(self.break_even_at(n) for n in range(1, limit + 1))
        object.__setattr__(self, "break_even", ratios)
        rates = tuple(n / self.baseline.curve.at(n) for n in range(1, limit + 1))
        object.__setattr__(self, "_baseline_rates", rates)

    @property
    def limit(self) -> int:
        """The largest concurrency that both engines were measured at."""
        return len(self.break_even)

    @property
    def accept_length(self) -> float:
        """The accept length of the sweep: the median over its cells. The prior of the live one."""
        seen = [gain for cell in self.speculative.cells for gain in cell.accept_length]
        return quantile(seen, 0.5) if seen else 1.0

    def path(self, path: Path) -> PathCalibration:
        """What was measured of the engine of `path`."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline

    def step_seconds(self, path: Path, n: float) -> float:
        """Seconds of a step (speculative: of a cycle) with n requests in it."""
        return self.path(path).curve.at(n)

    def tokens_per_second(
        self, path: Path, n: float, accept_length: float | None = None, mix: float = 0.0
    ) -> float:
        """Aggregate output tokens per second of the path alone with n requests in it.

        Args:
            mix: prompt tokens computed for each output token, beyond those of the sweep.
        """
        gain = 1.0
        if path is Path.SPECULATIVE:
            gain = self.accept_length if accept_length is None else accept_length
        return self.mixed_in(path, n * gain / self.step_seconds(path, n), mix)

    def mixed_in(self, path: Path, rate: float, mix: float) -> float:
        """What is left of a throughput when prompts take their part of the time."""
        return rate / (1.0 + mix * self.path(path).prefill_seconds_per_token * rate) if mix else rate

    def break_even_at(self, n: float) -> float:
        """a*(n): the accept length at which both engines give the same throughput."""
        return self.speculative.curve.at(n) / self.baseline.curve.at(n)

    def mixed_fraction(self, path: Path) -> float:
        """Share of its speed that the path keeps while the other engine has work; 1 on GPUs of its own."""
        if self.key.placement is Placement.SEPARATE:
            return 1.0
        if not self.mixed:
            return DEFAULT_FRACTIONS[path]
        speculative = path is Path.SPECULATIVE
        shares = [
            (cell.speculative_rate if speculative else cell.baseline_rate)
            / self.tokens_per_second(path, cell.speculative if speculative else cell.baseline)
            for cell in self.mixed
        ]
        return min(1.0, quantile(shares, 0.5))

    def drain_seconds(self, path: Path, n: float) -> float:
        """How long the path goes on once it gets no new requests: p90 as measured, or as the steps say."""
        measured = self.path(path).drain_seconds
        if measured:
            return quantile(measured, 0.9)
        gain = self.accept_length if path is Path.SPECULATIVE else 1.0
        alone = self.workload.output_tokens / gain * self.step_seconds(path, max(1.0, n))
        return alone / self.mixed_fraction(path)

    def dwell(self) -> float:
        """Least seconds between a switch and the next one down: the p90 of all drains, at least 10."""
        drains = [*self.speculative.drain_seconds, *self.baseline.drain_seconds]
        return max(DRAIN_FLOOR, quantile(drains, 0.9)) if drains else DRAIN_FLOOR

    def crossover(self, accept_length: float, mix: float = 0.0) -> Crossover:
        """N* at this accept length and this mix of prompts; see `tokens_per_second`.

        Where speculation wins in several ranges, N* ends the prefix of them over which it wins most: each
        load counts by its relative gain and all loads alike on a logarithmic scale. A range far up that
        does not pay for the losses before it is left out.
        """
        gains = self._gains(accept_length, mix)
        ranges = _winning(gains)
        if not ranges:
            return Crossover(Reach.NONE, 0.0, ())
        totals = list(accumulate(gain / n for n, gain in enumerate(gains, 1)))
        last = max(ranges, key=lambda each: totals[each.last - 1]).last
        if totals[last - 1] <= 0:
            return Crossover(Reach.NONE, 0.0, ranges)
        if last == self.limit:
            return Crossover(Reach.ALWAYS, float(last), ranges)
        above, below = gains[last - 1], gains[last]
        return Crossover(Reach.PART, last + above / (above - below), ranges)

    def _gains(self, accept_length: float, mix: float) -> list[float]:
        """Relative gains of speculation at 1, 2, … requests."""
        if not mix:
            return [accept_length / ratio - 1.0 for ratio in self.break_even]
        # T_S/T_B = (1/T_B + mix·q_B) / (1/T_S + mix·q_S), above and below times T_B.
        one, other = (mix * self.path(path).prefill_seconds_per_token for path in Path)
        return [
            (1.0 + other * rate) / (ratio / accept_length + one * rate) - 1.0
            for ratio, rate in zip(self.break_even, self._baseline_rates, strict=True)
        ]


def _winning(gains: Sequence[float]) -> tuple[Range, ...]:
    """Ranges of n in which the gain is not negative; `gains[0]` is that of n = 1."""
    runs = (list(run) for wins, run in groupby(enumerate(gains, 1), lambda each: each[1] >= 0) if wins)
    return tuple(Range(run[0][0], run[-1][0]) for run in runs)


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile of at least one value, linear between neighbours."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
