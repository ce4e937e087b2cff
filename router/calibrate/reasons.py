"""Why a verdict is what it is, what would change it, and what to measure to know more; as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from router.calibrate.derive import AtLength, Derived, Noisy
from router.calibrate.words import percent
from router.core.calibration import Calibration, Crossover, Reach, quantile
from router.core.words import Path

# An interval from half to twice the crossover is a factor of 4 wide.
_WANTED = math.log(4.0)
# Nobody measures longer than so many times.
_MOST_TIMES = 10
_LOUD = 1.5
# Groups have noise of their own; by less than this factor their crossovers do not differ.
_APART = 1.5
_EXAMPLES = 3

T = TypeVar("T")


def reasons(derived: Derived, *, longer: bool) -> tuple[str, ...]:
    """Sentences, the most important first.

    Args:
        longer: whether the interval is too wide, so that it matters how to narrow it.
    """
    return (
        *(_longer(derived) if longer else ()),
        *_by_load(derived),
        *_limits(derived, marks=not longer),
        *(() if longer else _between_cells(derived)),
        *_by_length(derived),
        *_by_group(derived),
        *_by_range(derived.at.crossover),
        *_mixed(derived),
    )


def reach(crossover: Crossover) -> str:
    """How far speculation pays, in words."""
    return {
        Reach.NONE: "it seems to pay nowhere",
        Reach.PART: f"it seems to pay up to {crossover.n:.3g} requests in flight",
        Reach.ALWAYS: f"it seems to pay at every load, up to {crossover.n:.0f}",
    }[crossover.reach]


def _longer(derived: Derived) -> Iterator[str]:
    """How to make the interval narrower."""
    limit = derived.calibration.limit
    interval = derived.at.interval
    low, high = (min(max(1.0, n), limit) for n in (interval.low, interval.high))
    between = [load for load in derived.loads if low <= load.n <= high]
    apart = max((abs(load.gain) for load in between), default=0.0)
    if between:
        yield (
            f"between {low:.3g} and {high:.3g} requests in flight the engines differ by {percent(apart)} "
            "at most: so much a wrong choice would cost"
        )
    # The width of an interval falls with the square root of what it rests on.
    times = max(2, math.ceil((math.log(high / low) / _WANTED) ** 2))
    much = (
        f"about {times} times as much" if times <= _MOST_TIMES else f"more than {_MOST_TIMES} times as much"
    )
    yield f"measure {much}: {_how(derived)}"
    loud = _loud(derived.errors)
    if loud:
        named = ", ".join(f"{each.path} at {each.concurrency} ({percent(each.error)} off)" for each in loud)
        yield f"the noisiest cells are {named}: measure at these first"


def _how(derived: Derived) -> str:
    seen = [math.log1p(each.error) ** 2 for each in derived.errors]
    between = math.sqrt(sum(seen) / len(seen)) if seen else 0.0
    inside = max(derived.noise.values())
    if inside > 0.7 * between:
        return f"longer windows, for a throughput varies by {percent(inside, 1)} within its window"
    return (
        f"more repeats, spread over time, for cells are {percent(math.expm1(between), 1)} off the curve, and "
        f"one window varies by {percent(inside, 1)}; see what else uses the machine"
    )


def _loud(errors: tuple[Noisy, ...]) -> tuple[Noisy, ...]:
    """The cells, at most 3, that are clearly noisier than the others."""
    if not errors:
        return ()
    usual = quantile([each.error for each in errors], 0.5)
    return tuple(each for each in errors[:3] if each.error > max(0.02, _LOUD * usual))


def examples(many: Sequence[T]) -> Sequence[T]:
    """At most 3 of them, evenly taken: the first, one in the middle, the last."""
    if len(many) <= _EXAMPLES:
        return many
    return [many[round((len(many) - 1) * place / (_EXAMPLES - 1))] for place in range(_EXAMPLES)]


def _by_load(derived: Derived) -> Iterator[str]:
    gains = ", ".join(f"{percent(load.gain, sign=True)} at {load.n}" for load in derived.loads)
    yield f"speculation against the baseline, by requests in flight: {gains}"


def _between_cells(derived: Derived) -> Iterator[str]:
    """The interval knows noise; how the curves go on between two measured loads it takes for granted."""
    at = derived.at
    below = max((load.n for load in derived.loads if load.n <= at.crossover.n), default=None)
    above = min((load.n for load in derived.loads if load.n > at.crossover.n), default=None)
    if at.crossover.reach is Reach.PART and below and above and above > 1.25 * below:
        nearest = round(at.crossover.n)
        more = f"; a visit at {nearest} would tell" if nearest not in (below, above) else ""
        yield (
            f"the interval is that of the noise: between the measured loads {below} and {above} the step "
            f"times are taken to be straight lines{more}"
        )


def _limits(derived: Derived, *, marks: bool) -> Iterator[str]:
    """Where an engine's queue begins below the load that the verdict speaks of."""
    calibration = derived.calibration
    most = calibration.speculative.max_running_requests
    high = derived.at.band.high
    wins = derived.at.crossover.reach is not Reach.NONE
    if marks and wins and most is not None:
        if high is not None and most < high:
            yield (
                f"the speculative engine runs {most} requests at a time, and the high watermark is "
                f"{high:.3g}: it would queue before load is sent away, so start it with "
                f"--max-running-requests {math.ceil(high)} or more and measure again; until then `high` is "
                f"{max(2, most)}"
            )
        elif high is None and most < calibration.limit:
            yield (
                f"the speculative engine runs {most} requests at a time; above that it queues, and `high` is "
                f"{max(2, most)}"
            )
    for path in Path:
        most = calibration.path(path).max_running_requests
        last = calibration.path(path).curve.last
        if most is not None and most < last:
            yield (
                f"the {path} engine was measured at up to {last} requests though it runs {most} at a time: "
                f"above {most} its cells show its queue"
            )


def _by_length(derived: Derived) -> Iterator[str]:
    """For which accept lengths the verdict would be another one."""
    none = [each for each in derived.lengths if each.crossover.reach is Reach.NONE]
    always = [each for each in derived.lengths if each.crossover.reach is Reach.ALWAYS]
    part = [each for each in derived.lengths if each.crossover.reach is Reach.PART]
    said = []
    if none and none[-1].accept_length > 1.0:
        said.append(f"at {none[-1].accept_length:.4g} or less it pays nowhere")
    said += [
        f"at {each.accept_length:.4g} up to {each.crossover.n:.3g}" for each in examples(_different(part))
    ]
    if always:
        said.append(f"from {always[0].accept_length:.4g} on at every load that was measured")
    if len(said) > 1:
        yield f"it depends on the accept length (here {derived.at.accept_length:.2f}): {'; '.join(said)}"


def _different(part: list[AtLength]) -> list[AtLength]:
    """Without those whose crossover reads like the one before."""
    return [
        each
        for place, each in enumerate(part)
        if not place or f"{each.crossover.n:.3g}" != f"{part[place - 1].crossover.n:.3g}"
    ]


def _by_group(derived: Derived) -> Iterator[str]:
    if len(derived.groups) < 2:
        return
    for group in derived.groups:
        text = f"group {group.name}, accept length {group.at.accept_length:.2f}: {reach(group.at.crossover)}"
        if group.own is not None and _other(group.own, group.at.crossover):
            text += f"; by its own cells alone {reach(group.own)}, so do not take one group for the other"
        yield text


def _other(own: Crossover, pooled: Crossover) -> bool:
    """Whether it is clearly another crossover; below one request there is nothing to decide."""
    low, high = sorted(max(1.0, each.n) for each in (own, pooled))
    return high > _APART * low


def _by_range(crossover: Crossover) -> Iterator[str]:
    if len(crossover.ranges) > 1:
        named = ", ".join(
            f"{each.first} to {each.last}" if each.last > each.first else f"{each.first}"
            for each in crossover.ranges
        )
        yield (
            f"it wins in {len(crossover.ranges)} separate ranges ({named}): noise, or an engine that changes "
            "its kernels with the batch"
        )


def _mixed(derived: Derived) -> Iterator[str]:
    calibration: Calibration = derived.calibration
    if not derived.together:
        return
    kept = " and ".join(f"{path} {percent(calibration.mixed_fraction(path))}" for path in Path)
    loss = quantile([each.loss for each in derived.together], 0.5)
    yield (
        f"while both have work each keeps a part of its speed ({kept}), and together they give "
        f"{percent(abs(loss))} {'less' if loss >= 0 else 'more'} than the better one alone"
    )
