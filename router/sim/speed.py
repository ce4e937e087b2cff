"""How fast a simulated engine is: pure functions of batch size, accept length and uncached prompt tokens.

Everything is interpolated in *step time*, never in tokens per second: step time is close to linear in the
batch size between two measured points, while throughput is not.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import pairwise

from router.core.words import Path


@dataclass(frozen=True, slots=True)
class Curve:
    """Step time in seconds by batch size: piecewise linear through `points`, which are sorted by batch size.

    Below the first point the first value holds (a step has a floor). Above the last one the slope of the last
    segment goes on, never falling; a curve of one point is flat.
    """

    points: tuple[tuple[int, float], ...]
    _sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = tuple(size for size, _ in self.points)
        if not sizes or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
            raise ValueError(f"batch sizes must be >= 1 and rising, got {list(sizes)}")
        if any(seconds <= 0 for _, seconds in self.points):
            raise ValueError("step times must be above 0 seconds")
        object.__setattr__(self, "_sizes", sizes)

    def at(self, batch: int) -> float:
        """Seconds of one step with `batch` requests in it."""
        points = self.points
        if batch <= points[0][0]:
            return points[0][1]
        if len(points) == 1:
            return points[0][1]
        right = min(bisect_right(self._sizes, batch), len(points) - 1)
        (x0, y0), (x1, y1) = points[right - 1], points[right]
        slope = (y1 - y0) / (x1 - x0)
        if batch > x1:
            return y1 + max(0.0, slope) * (batch - x1)
        return y0 + slope * (batch - x0)


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """Speed of one engine that has the GPU to itself.

    `steps`: seconds of a decode step (speculative: of a draft-and-verify cycle) by batch size.
    `accept_length`: mean tokens that a request gains per step, 1.0 without speculation, at most draft_steps
    + 1.
    `prefill_base`: least seconds of a pass that only prefills. `prefill_per_token`: seconds per uncached
    token.
    `mixed_fraction`: share of its speed that is left while the other engine of the same GPU has work.
    """

    steps: Curve
    accept_length: float = 1.0
    draft_steps: int = 0
    prefill_base: float = 0.01
    prefill_per_token: float = 2e-5
    mixed_fraction: float = 1.0
    max_running_requests: int = 256

    def step_seconds(self, batch: int) -> float:
        """Seconds of one step with `batch` requests in it."""
        return self.steps.at(batch)

    def pass_seconds(self, decoding: int, admitted: int, uncached_tokens: int) -> float:
        """Seconds of a pass that decodes `decoding` requests and prefills `admitted` new ones along with
        them.

        The fixed cost of a prefill is part of the decode step that it rides on; alone it costs
        `prefill_base`.
        """
        seconds = self.steps.at(decoding + admitted)
        if not decoding:
            seconds = max(seconds, self.prefill_base)
        return seconds + self.prefill_per_token * uncached_tokens

    def tokens_per_second(self, batch: int, accept_length: float | None = None) -> float:
        """Aggregate output tokens per second at a steady concurrency of `batch`, prefill left out."""
        gain = self.accept_length if accept_length is None else accept_length
        return batch * gain / self.steps.at(batch)


@dataclass(frozen=True, slots=True)
class Profile:
    """Speeds of the two engines of a pair."""

    name: str
    speculative: EngineSpeed
    baseline: EngineSpeed

    def speed(self, path: Path) -> EngineSpeed:
        """Speed of the engine that serves `path`."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline

    def with_max_running_requests(self, limit: int) -> Profile:
        """The same profile with one running limit on both engines."""
        return replace(
            self,
            speculative=replace(self.speculative, max_running_requests=limit),
            baseline=replace(self.baseline, max_running_requests=limit),
        )

    def break_even_accept_length(self, batch: int) -> float:
        """Accept length at which both engines give the same throughput at concurrency `batch`."""
        return self.speculative.steps.at(batch) / self.baseline.steps.at(batch)

    def crossover(self, accept_length: float | None = None, limit: int = 1024) -> int:
        """Largest concurrency up to `limit` at which speculation still ties or wins; 0 when it never does."""
        gain = self.speculative.accept_length if accept_length is None else accept_length
        wins = (n for n in range(limit, 0, -1) if gain >= self.break_even_accept_length(n) * (1 - 1e-9))
        return next(wins, 0)
