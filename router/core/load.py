"""What an engine says about itself, and rates made from it.

Missing, NaN and stale values are None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One reading of an engine's own numbers.

    Attributes:
        at: monotonic seconds of the reading.
        running, waiting: requests decoding, and queued in the engine.
        token_usage: share of the KV pool in use, 0…1.
        gen_throughput: tokens per second as the engine reports them.
        generation_tokens: tokens generated since the engine started.
        accept_length: recent tokens per speculative step (`sglang:spec_accept_length`).
        cache_hits: share of recent prompt tokens found in the prefix cache, 0…1 (`sglang:cache_hit_rate`).
        prefilled_tokens: prompt tokens computed since the engine started, those of the cache left out.
        stamp: when the engine took the numbers, by its own clock; comparable only with itself.
    """

    at: float
    running: int | None = None
    waiting: int | None = None
    token_usage: float | None = None
    gen_throughput: float | None = None
    generation_tokens: float | None = None
    accept_length: float | None = None
    stamp: float | None = None
    cache_hits: float | None = None
    prefilled_tokens: float | None = None

    def in_flight(self) -> int | None:
        """Requests the engine holds; None unless it told both parts."""
        if self.running is None or self.waiting is None:
            return None
        return self.running + self.waiting


def finite(value: object) -> float | None:
    """`value` as a float if it is a finite number, else None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats, which JSON may hold
        return None


class ThroughputMeter:
    """Tokens per second of one engine over the last seconds, generated ones and computed ones of prompts.

    The rate of the token counter where there is one, since `gen_throughput` keeps its last value on an
    idle engine; else `gen_throughput` while the engine says that something runs.

    Args:
        window: seconds over which the counter's rate is taken.
    """

    def __init__(self, window: float = 5.0) -> None:
        self._window = window
        self._samples: list[tuple[float, float, float | None]] = []
        self._latest: EngineLoad | None = None

    def record(self, load: EngineLoad) -> None:
        """Take a reading in."""
        self._latest = load
        if load.generation_tokens is None:
            return
        if self._samples and load.generation_tokens < self._samples[-1][1]:
            self._samples.clear()  # the engine was restarted
        self._samples.append((load.at, load.generation_tokens, load.prefilled_tokens))
        while len(self._samples) > 2 and load.at - self._samples[1][0] >= self._window:
            del self._samples[0]

    def per_second(self, now: float) -> float | None:
        """Tokens per second; None without a reading younger than twice the window."""
        latest = self._latest
        if latest is None or now - latest.at > 2 * self._window:
            return None
        if latest.generation_tokens is None:
            idle = latest.in_flight() == 0
            return 0.0 if idle else latest.gen_throughput
        if len(self._samples) < 2:
            return None
        (began, first, _), (ended, last, _) = self._samples[0], self._samples[-1]
        return (last - first) / (ended - began) if ended > began else None

    def prefilled_per_second(self) -> float | None:
        """The same of prompts, up to the last reading; None where the engine does not count them."""
        if len(self._samples) < 2:
            return None
        (began, _, first), (ended, _, last) = self._samples[0], self._samples[-1]
        if first is None or last is None or ended <= began:
            return None
        return max(0.0, last - first) / (ended - began)


class Readings:
    """What is known now of one engine's own numbers: its latest reading and the rate made from it.

    Args:
        clock: monotonic seconds.
        max_age: seconds after which a reading says nothing any more.
    """

    def __init__(self, clock: Callable[[], float], max_age: float = 10.0) -> None:
        self._clock = clock
        self._max_age = max_age
        self._latest: EngineLoad | None = None
        self._meter = ThroughputMeter()

    def record(self, load: EngineLoad) -> None:
        """Take a reading in."""
        self._latest = load
        self._meter.record(load)

    def forget(self) -> None:
        """The engine is gone: its last words must not be read as the state of the next one."""
        self._latest = None
        self._meter = ThroughputMeter()

    def latest(self) -> EngineLoad | None:
        """The latest reading; None if there is none younger than `max_age`."""
        latest = self._latest
        return latest if latest and self._clock() - latest.at <= self._max_age else None

    def accept_length(self) -> float | None:
        """Tokens per speculative step; None if not known."""
        latest = self.latest()
        return latest.accept_length if latest else None

    def tokens_per_second(self) -> float | None:
        """Tokens per second that the engine generates; None if not known."""
        return self._meter.per_second(self._clock()) if self.latest() else None

    def prefilled_per_second(self) -> float | None:
        """Prompt tokens per second that the engine computes; None if not known."""
        return self._meter.prefilled_per_second() if self.latest() else None
