"""From requests to figures, in a window of time. Pure.

What was measured counts only inside the window, when the load stood:

* tokens: a request's tokens by usage, spread over the times at which its pieces came;
* failures: of all requests that were open in the window, for those that fail are not left out of a figure;
* TTFT: of requests whose first text came in it; latency and TPOT: of those that ended in it.

Where more than 1 % failed there are no percentiles: those of the survivors would flatter the server.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, stdev

from router.bench.messages import Sample
from router.core.calibration import quantile
from router.core.words import Path

# Share of requests that must have succeeded for a cell to count.
LEAST_SUCCESS = 0.99
# Parts of the window, whose differences say how sure its mean is; Student's t of 9 degrees at 90 %.
PARTS = 10
STUDENT = 1.833


@dataclass(frozen=True, slots=True)
class Window:
    """From `begin` to `end`, monotonic seconds."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin

    def holds(self, at: float | None) -> bool:
        """Whether a time lies in it."""
        return at is not None and self.begin <= at < self.end


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 90th and 99th percentile, in seconds."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One cell.

    Attributes:
        seconds: length of the window.
        requests: that were open in it.
        failures: of them, by reason.
        tokens_per_second: of all requests together that succeeded.
        error: half-width of the 90 % interval of that, relative; None: nothing came.
        tokens_per_second_each: of one request, after its first token (1 / TPOT, median).
        ttft, tpot, gap, latency: None where too much failed or nothing was seen; `gap` between two pieces.
        in_flight: mean number of requests open.
        requests_per_second: that ended.
        prompt_tokens, output_tokens: means per request; `cached_tokens` None where the server tells none.
        drain_seconds: from the window's end to the last answer's.
        speculative_share: of the requests, where a router said which engine served them; None: nobody did.
    """

    seconds: float
    requests: int
    failures: Mapping[str, int] = field(default_factory=dict)
    tokens_per_second: float = 0.0
    error: float | None = None
    tokens_per_second_each: float | None = None
    ttft: Spread | None = None
    tpot: Spread | None = None
    gap: Spread | None = None
    latency: Spread | None = None
    in_flight: float = 0.0
    requests_per_second: float = 0.0
    prompt_tokens: float = 0.0
    cached_tokens: float | None = None
    output_tokens: float = 0.0
    drain_seconds: float = 0.0
    speculative_share: float | None = None

    @property
    def failed(self) -> int:
        """How many requests failed."""
        return sum(self.failures.values())

    @property
    def success_rate(self) -> float:
        """Share of the requests that succeeded; 0 if there were none."""
        return (self.requests - self.failed) / self.requests if self.requests else 0.0

    @property
    def good(self) -> bool:
        """Whether the figures may be used."""
        return self.success_rate >= LEAST_SUCCESS


def figures(samples: Sequence[Sample], window: Window) -> Figures:
    """The figures of a window."""
    present = [one for one in samples if one.ended >= window.begin and one.started < window.end]
    whole = [one for one in present if one.problem is None]
    failures = Counter(one.problem for one in present if one.problem is not None)
    good = bool(present) and len(whole) / len(present) >= LEAST_SUCCESS
    parts = _tokens(whole, window)
    rate = sum(parts) / window.seconds
    ended = [one for one in whole if window.holds(one.ended)]
    tpot = _spread([_tpot(one) for one in ended if one.tokens > 1 and one.first is not None])
    paths = [one.path for one in whole if one.path is not None]
    cached = [one.cached_tokens for one in whole if one.cached_tokens is not None]
    return Figures(
        seconds=window.seconds,
        requests=len(present),
        failures=dict(sorted(failures.items())),
        tokens_per_second=rate,
        error=_error(parts),
        tokens_per_second_each=1.0 / tpot.p50 if good and tpot and tpot.p50 > 0 else None,
        ttft=_spread([(one.first or 0.0) - one.started for one in whole if window.holds(one.first)], good),
        tpot=tpot if good else None,
        gap=_spread([gap for one in whole for gap in _gaps(one, window)], good),
        latency=_spread([one.ended - one.started for one in ended], good),
        in_flight=sum(_overlap(one, window) for one in present) / window.seconds,
        requests_per_second=len(ended) / window.seconds,
        prompt_tokens=fmean(one.prompt_tokens for one in whole) if whole else 0.0,
        cached_tokens=fmean(cached) if cached else None,
        output_tokens=fmean(one.tokens for one in whole) if whole else 0.0,
        drain_seconds=max((one.ended for one in present), default=window.end) - window.end,
        speculative_share=fmean(path == Path.SPECULATIVE for path in paths) if paths else None,
    )


def _tokens(samples: Sequence[Sample], window: Window) -> list[float]:
    """Tokens in each part of the window."""
    parts = [0.0] * PARTS
    width = window.seconds / PARTS
    for one in samples:
        times = one.chunks or [one.ended]
        share = one.tokens / len(times)
        for at in times[bisect_left(times, window.begin) : bisect_left(times, window.end)]:
            parts[min(PARTS - 1, int((at - window.begin) / width))] += share
    return parts


def _error(parts: Sequence[float]) -> float | None:
    mean = fmean(parts)
    return STUDENT * stdev(parts) / len(parts) ** 0.5 / mean if mean > 0 else None


def _tpot(one: Sample) -> float:
    assert one.first is not None
    return (one.ended - one.first) / (one.tokens - 1)


def _gaps(one: Sample, window: Window) -> list[float]:
    times = one.chunks
    return [
        b - a for a, b in pairwise(times[bisect_left(times, window.begin) : bisect_left(times, window.end)])
    ]


def _overlap(one: Sample, window: Window) -> float:
    return max(0.0, min(one.ended, window.end) - max(one.started, window.begin))


def _spread(values: Sequence[float], good: bool = True) -> Spread | None:
    if not values or not good:
        return None
    ordered = sorted(values)
    return Spread(quantile(ordered, 0.5), quantile(ordered, 0.9), quantile(ordered, 0.99))
