"""The verdict: which of five layouts serves a load best, as a pure function of numbers.

A layout is judged by the mean time that a user waits for a token: the sum over all loads n of
share(n) · n / T(n), with T the layout's throughput at n requests in flight. Of the layouts that are possible,
the simplest one within 2 % of the best is advised.

    baseline, speculative   T_B(n), T_S(n)
    adaptive                max(T_S(n), T_B(n) / tax): one engine that stops speculating by itself
    shared                  the faster of the two; inside the band between the watermarks the mean of both,
                            for there the past decides which one serves
    pools                   the best split of n over two sets of GPUs, against two sets of the same engine

Memory enters by the requests that fit: beyond them a layout gives no more than at them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from router.advise.means import Means
from router.core.band import Band, band
from router.core.calibration import Calibration
from router.core.words import Path

ENOUGH = 1.02
# What one engine pays for stopping to speculate by itself: +6.6 % at 2 requests, +21.6 % at 189 on vLLM.
ADAPTIVE_TAX = 1.10


class Layout(StrEnum):
    """What can be advised, the simplest first."""

    BASELINE = "baseline only"
    SPECULATIVE = "speculative only"
    ADAPTIVE = "one adaptive engine"
    SHARED = "two engines shared"
    POOLS = "two pools"


@dataclass(frozen=True, slots=True)
class Option:
    """One layout. `seconds_per_token`: what a user waits on average; None where `why_not` says why not."""

    layout: Layout
    seconds_per_token: float | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """One load: requests in flight, its share of all requests, both throughputs in tokens per second."""

    n: int
    share: float
    speculative: float
    baseline: float


@dataclass(frozen=True, slots=True)
class Advice:
    """A verdict and what it rests on.

    Attributes:
        layout: what is advised.
        options: every layout with its cost, the simplest first.
        loads: the traffic, and who wins at each load.
        accept_length: what was reckoned with.
        band: watermarks at it.
        below: share of the requests at loads at which speculation wins.
        notes: what was assumed.
        changes: what would change the verdict.
    """

    layout: Layout
    options: tuple[Option, ...]
    loads: tuple[Load, ...]
    accept_length: float
    band: Band
    below: float
    notes: tuple[str, ...]
    changes: tuple[str, ...]


def advise(
    calibration: Calibration,
    means: Means | None = None,
    traffic: Mapping[int, float] | None = None,
    accept_length: float | None = None,
) -> Advice:
    """The layout for this traffic.

    Args:
        calibration: of both engines.
        means: memory and GPUs.
        traffic: share of the requests by requests in flight; None: all loads up to the largest measured one,
            alike on a logarithmic scale.
        accept_length: of the traffic; None: that of the calibration.
    """
    means = means or Means()
    gain = calibration.accept_length if accept_length is None else accept_length
    shares = _shares(calibration, traffic)
    options = _options(calibration, means, shares, gain)
    layout = _simplest(options)
    loads = tuple(
        Load(
            n,
            share,
            calibration.tokens_per_second(Path.SPECULATIVE, n, gain),
            calibration.tokens_per_second(Path.BASELINE, n),
        )
        for n, share in shares.items()
    )
    below = sum(load.share for load in loads if load.speculative >= load.baseline)
    return Advice(
        layout,
        options,
        loads,
        gain,
        band(calibration, gain),
        below,
        _notes(means, traffic),
        _changes(calibration, means, shares, gain, layout),
    )


def _shares(calibration: Calibration, traffic: Mapping[int, float] | None) -> dict[int, float]:
    """Shares that add up to 1, by load."""
    if traffic is None:
        sizes = [2**power for power in range(calibration.limit.bit_length())]
        return dict.fromkeys(sizes, 1.0 / len(sizes))
    total = sum(traffic.values())
    if not total > 0 or any(n < 1 or share < 0 for n, share in traffic.items()):
        raise ValueError(
            "traffic is shares of at least 0, by requests in flight from 1 on, not all of them 0"
        )
    return {n: share / total for n, share in sorted(traffic.items()) if share}


def _options(
    calibration: Calibration, means: Means, shares: Mapping[int, float], gain: float
) -> tuple[Option, ...]:
    marks = band(calibration, gain)
    alone = _fitting(means.kv_tokens_alone, means)
    held = {
        Path.SPECULATIVE: _fitting(means.kv_tokens_speculative or means.kv_tokens, means),
        Path.BASELINE: _fitting(means.kv_tokens, means),
    }

    def speculative(n: float) -> float:
        return calibration.tokens_per_second(Path.SPECULATIVE, n, gain)

    def baseline(n: float) -> float:
        return calibration.tokens_per_second(Path.BASELINE, n)

    def adaptive(n: float) -> float:
        return max(speculative(n), baseline(n) / ADAPTIVE_TAX)

    def shared(n: float) -> float:
        rates = speculative(min(n, held[Path.SPECULATIVE])), baseline(min(n, held[Path.BASELINE]))
        if _between(marks, n):
            return 2.0 / (1.0 / rates[0] + 1.0 / rates[1])
        return max(rates)

    def capped(rate: Callable[[float], float]) -> Callable[[float], float]:
        return lambda n: rate(min(n, alone))

    sets = 2 if means.own_gpus else 1
    rates: dict[Layout, Callable[[float], float]] = {
        Layout.BASELINE: _repeated(capped(baseline), sets),
        Layout.SPECULATIVE: _repeated(capped(speculative), sets),
        Layout.ADAPTIVE: _repeated(capped(adaptive), sets),
        Layout.SHARED: _repeated(shared, sets),
        Layout.POOLS: lambda n: _split(capped(speculative), capped(baseline), int(n)),
    }
    refused = _refused(means, min(held.values()))
    return tuple(
        Option(each, None, refused[each]) if each in refused else Option(each, _cost(rates[each], shares))
        for each in Layout
    )


def _fitting(kv_tokens: int | None, means: Means) -> float:
    """Requests that fit into a pool; infinite where that is not known."""
    if kv_tokens is None or means.request_tokens is None:
        return float("inf")
    return kv_tokens / means.request_tokens


def _refused(means: Means, least: float) -> dict[Layout, str]:
    refused = {}
    if means.adaptive is False:
        refused[Layout.ADAPTIVE] = "this version or configuration cannot run it"
    if means.fits_twice is False:
        because = f": {means.refusal}" if means.refusal else ""
        refused[Layout.SHARED] = f"two engines do not fit on these GPUs{because}"
    elif least < 1:
        refused[Layout.SHARED] = "not one long request fits into the KV pool of each of two engines"
    if not means.own_gpus:
        refused[Layout.POOLS] = "there is one set of GPUs"
    return refused


def _between(marks: Band, n: float) -> bool:
    return marks.low is not None and marks.high is not None and marks.low < n < marks.high


def _repeated(rate: Callable[[float], float], sets: int) -> Callable[[float], float]:
    """The throughput of that many sets of the same, each with its part of the requests."""
    return lambda n: sum(rate(part) for part in _parts(int(n), sets) if part)


def _parts(n: int, sets: int) -> list[int]:
    return [n // sets + (1 if place < n % sets else 0) for place in range(sets)]


def _split(one: Callable[[float], float], other: Callable[[float], float], n: int) -> float:
    """The throughput of the best split of n over two engines."""
    return max((one(k) if k else 0.0) + (other(n - k) if n - k else 0.0) for k in range(n + 1))


def _cost(rate: Callable[[float], float], shares: Mapping[int, float]) -> float:
    return sum(share * n / rate(n) for n, share in shares.items())


def _simplest(options: tuple[Option, ...]) -> Layout:
    """The first that is within `ENOUGH` of the best."""
    possible = [
        (each.layout, each.seconds_per_token) for each in options if each.seconds_per_token is not None
    ]
    best = min(cost for _, cost in possible)
    return next(layout for layout, cost in possible if cost <= ENOUGH * best)


def _notes(means: Means, traffic: Mapping[int, float] | None) -> tuple[str, ...]:
    notes = []
    if traffic is None:
        notes.append("no traffic was given: all loads up to the largest measured one count alike")
    if means.fits_twice is None:
        notes.append("that two engines fit on the GPUs is assumed; `spec-router plan` tells")
    if means.adaptive is None:
        notes.append(
            "that one adaptive engine can run is assumed, with a tax of 10 % where it does not speculate"
        )
    if means.kv_tokens is None or means.request_tokens is None:
        notes.append("KV memory was not looked at")
    return tuple(notes)


def _changes(
    calibration: Calibration, means: Means, shares: Mapping[int, float], gain: float, layout: Layout
) -> tuple[str, ...]:
    changes = []
    for step in (0.05, -0.05):
        found = _other_length(calibration, means, shares, gain, layout, step)
        if found:
            changes.append(found)
    changes += _other_means(calibration, means, shares, gain, layout)
    return tuple(changes)


def _other_length(
    calibration: Calibration,
    means: Means,
    shares: Mapping[int, float],
    gain: float,
    layout: Layout,
    step: float,
) -> str | None:
    """The nearest accept length in this direction with another verdict."""
    value = gain + step
    while 1.0 <= value <= 2 * gain + 1:
        verdict = _simplest(_options(calibration, means, shares, value))
        if verdict is not layout:
            return f"an accept length of {value:.2f} instead of {gain:.2f}: {verdict}"
        value += step
    return None


def _other_means(
    calibration: Calibration, means: Means, shares: Mapping[int, float], gain: float, layout: Layout
) -> list[str]:
    """What other memory and GPUs would lead to."""
    others = {
        "no room for two engines": replace(means, fits_twice=False),
        "room for two engines": replace(means, fits_twice=True),
        "no adaptive engine": replace(means, adaptive=False),
        "an adaptive engine that runs": replace(means, adaptive=True),
        "a set of GPUs for each engine": replace(means, own_gpus=True),
    }
    found = []
    for what, other in others.items():
        verdict = _simplest(_options(calibration, other, shares, gain))
        if verdict is not layout:
            found.append(f"{what}: {verdict}")
    return found
