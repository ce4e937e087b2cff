"""What the load's clients saw, added up."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from router.core.words import Path
from router.demo.reply import Reply
from router.observe.recent import quantile

# Times to the first token kept per path: an hour of the demonstration's load, and bounded memory.
TTFT_KEPT = 20_000


class BusyTime:
    """The length of a union of intervals of time, which may come in any order."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def add(self, start: float, end: float) -> None:
        """Add an interval, in seconds."""
        apart = []
        for span in self._spans:
            if span[1] < start or end < span[0]:
                apart.append(span)
            else:
                start, end = min(start, span[0]), max(end, span[1])
        self._spans = [*apart, (start, end)]

    @property
    def seconds(self) -> float:
        """Seconds covered so far."""
        return sum(end - start for start, end in self._spans)


@dataclass(frozen=True, slots=True)
class PathFigures:
    """One path.

    Attributes:
        requests: whole answers.
        tokens: of these, by usage.
        tokens_per_second: tokens divided by the time during which requests of the path were in flight;
            None if there were none.
        ttft_p50, ttft_p99: seconds from sending to the first byte of an answer; None without answers.
    """

    requests: int
    tokens: int
    tokens_per_second: float | None
    ttft_p50: float | None
    ttft_p99: float | None


class _PathTally:
    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0
        self.ttft: deque[float] = deque(maxlen=TTFT_KEPT)
        self.busy = BusyTime()

    def record(self, reply: Reply) -> None:
        self.busy.add(reply.started, reply.ended)
        if reply.problem is not None:
            return
        self.requests += 1
        self.tokens += reply.tokens
        if reply.first is not None:
            self.ttft.append(reply.first - reply.started)

    def figures(self) -> PathFigures:
        ordered = sorted(self.ttft)
        seconds = self.busy.seconds
        rate = self.tokens / seconds if seconds > 0 else None
        return PathFigures(self.requests, self.tokens, rate, quantile(ordered, 0.5), quantile(ordered, 0.99))


class Tally:
    """All replies so far."""

    def __init__(self) -> None:
        self.requests = 0
        self.problems: Counter[str] = Counter()
        self._paths = {path: _PathTally() for path in Path}

    @property
    def failed(self) -> int:
        """Requests that did not get a whole answer."""
        return self.problems.total()

    def record(self, reply: Reply) -> None:
        """Take a reply in."""
        self.requests += 1
        if reply.problem is not None:
            self.problems[reply.problem] += 1
        if reply.path is not None:
            self._paths[reply.path].record(reply)

    def unfinished(self, count: int, reason: str) -> None:
        """Requests that were given up before their answers were whole."""
        self.requests += count
        self.problems[reason] += count

    def figures(self, path: Path) -> PathFigures:
        """The figures of a path at this moment."""
        return self._paths[path].figures()
