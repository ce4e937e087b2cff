"""Arrivals: recorded ones and made-up ones, at a rate (open loop) or by users who wait (closed loop)."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path as FilePath
from random import Random

# Requests of made-up loads, as those of the simulated engines: answers end by themselves.
PROMPT_TOKENS = 200
OUTPUT_MEDIAN = 160.0
OUTPUT_SIGMA = 0.6
STEADY_SECONDS = 600.0
# A day is a wave with a long quiet part: at a quarter of it the load is an eighth of the peak's.
DAY_POWER = 3

_MADE_UP = re.compile(
    r"(?P<shape>steady|wave|day|ramp):(?P<low>[0-9.]+)(?:-(?P<high>[0-9.]+))?(?P<open>/s)?(?::(?P<span>[0-9.]+)(?P<unit>s|m|h)?)?"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
FORMS = (
    "a CSV file of time, prompt tokens, output tokens; or steady:8, steady:2.5/s, wave:1-60:20m, "
    "day:0.1-5/s:40m, ramp:0.5-6/s:10m (requests in flight, or per second with /s)"
)

Shape = tuple[int, int]  # prompt and output tokens


class LoadError(ValueError):
    """A load that cannot be replayed; says which and what is allowed."""


@dataclass(frozen=True, slots=True)
class Level:
    """Users, or requests per second, by time: `shape` from `low` to `high` over `span` seconds."""

    shape: str
    low: float
    high: float
    span: float

    def __call__(self, now: float) -> float:
        """The level at that second."""
        if self.shape == "steady":
            return self.low
        if self.shape == "ramp":
            return self.low + (self.high - self.low) * min(1.0, now / self.span)
        power = DAY_POWER if self.shape == "day" else 1
        swing = (1.0 - math.cos(2.0 * math.pi * now / self.span)) / 2.0
        return self.low + (self.high - self.low) * swing**power


@dataclass(frozen=True, slots=True)
class Load:
    """What arrives.

    Attributes:
        name: for tables.
        duration: seconds in which requests arrive.
        users: requests that are held in flight by time (closed loop); None: they come at their own times.
        rate: requests per second by time (open loop, made up); None: recorded or closed.
        recorded: arrival time and tokens of each request, sorted (open loop); lengths only in a closed loop.
    """

    name: str
    duration: float
    users: Callable[[float], float] | None = None
    rate: Callable[[float], float] | None = None
    recorded: Sequence[tuple[float, int, int]] = ()

    @property
    def closed(self) -> bool:
        """Whether users wait for their answers."""
        return self.users is not None

    def arrivals(self, rng: Random) -> list[tuple[float, int, int]]:
        """Time, prompt and output tokens of every request of an open loop."""
        if self.rate is None:
            return list(self.recorded)
        peak = max(self.rate(self.duration * share / 1000) for share in range(1001))
        found, now = [], 0.0
        while peak > 0 and (now := now + rng.expovariate(peak)) < self.duration:
            if rng.random() * peak < self.rate(now):
                found.append((now, *made_up(rng)))
        return found

    def shape(self, rng: Random) -> Shape:
        """The tokens of a closed loop's next request."""
        if self.recorded:
            _, prompt, output = self.recorded[int(rng.random() * len(self.recorded))]
            return prompt, output
        return made_up(rng)

    def with_users(self, users: float) -> Load:
        """The same requests, sent by so many users who wait."""
        return Load(
            self.name, self.duration, users=Level("steady", users, users, 1.0), recorded=self.recorded
        )


def made_up(rng: Random) -> Shape:
    """The tokens of a made-up request."""
    return PROMPT_TOKENS, max(1, round(OUTPUT_MEDIAN * math.exp(rng.gauss(0.0, OUTPUT_SIGMA))))


def read_load(text: str, scale: float = 1.0, duration: float | None = None) -> Load:
    """The load that a name or a file describes.

    Args:
        text: see `FORMS`.
        scale: multiplies rates and users; recorded times are divided by it.
        duration: seconds, instead of the load's own.

    Raises:
        LoadError: it is neither, or malformed.
    """
    found = _MADE_UP.fullmatch(text)
    if found is None:
        return _recorded(FilePath(text), scale, duration)
    span = float(found["span"]) * _UNITS[found["unit"] or "s"] if found["span"] else STEADY_SECONDS
    low, high = float(found["low"]) * scale, float(found["high"] or found["low"]) * scale
    if span <= 0 or low > high or (found["shape"] == "steady" and found["high"]):
        raise LoadError(f"{text!r} is not a load; allowed: {FORMS}")
    level = Level(found["shape"], low, high, span)
    if found["open"]:
        return Load(text, duration or span, rate=level)
    return Load(text, duration or span, users=level)


def _recorded(path: FilePath, scale: float, duration: float | None) -> Load:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LoadError(f"{str(path)!r} cannot be replayed: {error}; allowed: {FORMS}") from None
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append((_seconds(row[0]), int(row[1]), int(row[2])))
        except (ValueError, IndexError):
            if number > 1:  # the first line may be a header
                raise LoadError(
                    f"{path}, line {number}: {row!r} is not time, prompt tokens, output tokens"
                ) from None
    if not found:
        raise LoadError(f"{path} holds no request")
    found.sort()
    began = found[0][0]
    times = [((at - began) / scale, prompt, output) for at, prompt, output in found]
    last = duration or times[-1][0]
    return Load(path.name, last, recorded=[each for each in times if each[0] <= last])


def _seconds(text: str) -> float:
    """A number of seconds, or a date and time; fractions beyond microseconds are cut."""
    try:
        value = float(text)
    except ValueError:
        head, dot, fraction = text.partition(".")
        return datetime.fromisoformat(head).timestamp() + (float(f"0.{fraction}") if dot else 0.0)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
