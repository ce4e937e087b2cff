"""Recent figures of each path in bounded memory, for people who look on: the status page and the demo."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from router.core.events import Decision, RequestRecord
from router.core.failure import Kind
from router.core.ledger import Clock
from router.core.policy import Switch
from router.core.words import Path, Rejection
from router.observe.tokens import completion_tokens

WINDOW = 60.0
SAMPLES = 500


@dataclass(frozen=True, slots=True)
class Figures:
    """One path.

    Attributes:
        ttft_p50, ttft_p99: seconds to the first token over the recent window; None if it is empty.
        requests: requests that ended on the path since the start.
        tokens: output tokens since the start, estimated where the engine did not say.
    """

    ttft_p50: float | None
    ttft_p99: float | None
    requests: int
    tokens: int


class _PathWindow:
    __slots__ = ("requests", "tokens", "ttft")

    def __init__(self) -> None:
        self.ttft: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        self.requests = 0
        self.tokens = 0.0


class Recent:
    """An `Observer` that remembers the last minute, but at most 500 requests of each path.

    Args:
        clock: monotonic seconds.
        accept_length: live tokens per speculative step, None while unknown.
    """

    def __init__(self, clock: Clock, accept_length: Callable[[], float | None]) -> None:
        self._clock = clock
        self._accept_length = accept_length
        self._paths = {path: _PathWindow() for path in Path}

    def figures(self, path: Path) -> Figures:
        """The figures of a path at this moment."""
        window = self._paths[path]
        oldest = self._clock() - WINDOW
        while window.ttft and window.ttft[0][0] < oldest:
            window.ttft.popleft()
        ordered = sorted(ttft for _, ttft in window.ttft)
        return Figures(quantile(ordered, 0.5), quantile(ordered, 0.99), window.requests, round(window.tokens))

    def on_finished(self, record: RequestRecord) -> None:
        """See `Observer`."""
        if record.path is None:
            return
        window = self._paths[record.path]
        window.requests += 1
        window.tokens += completion_tokens(record, self._accept_length)[0] or 0.0
        if record.streamed and record.first_byte is not None:
            window.ttft.append((self._clock(), record.first_byte))

    def on_decision(self, decision: Decision) -> None:
        """Not remembered."""

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """Not remembered."""

    def on_switch(self, switch: Switch) -> None:
        """Not remembered: the pair keeps its switches."""

    def on_rejected(self, reason: Rejection) -> None:
        """Not remembered."""


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile of sorted values; None if there are none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
