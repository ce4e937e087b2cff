"""What the screen shows at one moment, without how it looks.

Made from the answer of the router's `GET /admin/status`: the screen shows what any operator can ask for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router.demo.words import switch_text, why_text

WINDOW = 60.0
TICK = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """N and the active path at one moment."""

    n: int
    path: str


@dataclass(frozen=True, slots=True)
class PathRow:
    """One path: where it stands now. Times are seconds over the last minute; None is not known."""

    path: str
    active: bool
    in_flight: int
    requests: int
    tokens_per_second: float | None
    ttft_p50: float | None
    ttft_p99: float | None


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A switch: seconds since the beginning, and what happened."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class LoadNow:
    """The load: seconds since it began, users it wants now, whether it is ending, replies so far."""

    elapsed: float
    users: int
    stopping: bool
    requests: int
    failed: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment.

    Attributes:
        load: see `LoadNow`.
        active_path, since, why: the active path, for how many seconds, and the reason in words.
        n, high, low: requests in flight, and the watermarks.
        mixed_seconds: time so far in which both engines had requests.
        history: N over the last minute, oldest first, one sample each `TICK`.
        rows: the paths.
        switches: the last ones, newest first.
    """

    load: LoadNow
    active_path: str
    since: float
    why: str
    n: int
    high: int
    low: int
    mixed_seconds: float
    history: tuple[Sample, ...]
    rows: tuple[PathRow, ...]
    switches: tuple[SwitchRow, ...]


class Frames:
    """Makes frames and remembers the last minute of N.

    Args:
        began: seconds since the epoch when the demonstration began.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._history: deque[Sample] = deque(maxlen=round(WINDOW / TICK))

    def take(self, status: Mapping[str, Any], load: LoadNow) -> Frame:
        """The frame of this moment, from the body of `/admin/status`; call it once each `TICK`."""
        pair = status["pairs"][0]
        policy, switches = pair["policy"], pair["switches"]
        active, last = pair["active_path"], switches[-1] if switches else None
        self._history.append(Sample(pair["n"], active))
        return Frame(
            load=load,
            active_path=active,
            since=pair["since_seconds"],
            why=why_text(last and last["reason"], last["n"] if last else 0, policy["high"], policy["low"]),
            n=pair["n"],
            high=policy["high"],
            low=policy["low"],
            mixed_seconds=pair["mixed_seconds"],
            history=tuple(self._history),
            rows=tuple(_row(path, path == active, told) for path, told in pair["paths"].items()),
            switches=tuple(self._switch(switch) for switch in reversed(switches)),
        )

    def _switch(self, switch: Mapping[str, Any]) -> SwitchRow:
        text = switch_text(switch["from"], switch["to"], switch["n"], switch["reason"])
        return SwitchRow(round(switch["at"] - self._began, 1), text)


def _row(path: str, active: bool, told: Mapping[str, Any]) -> PathRow:
    return PathRow(
        path,
        active,
        told["active"],
        told["requests"],
        told["tokens_per_second"],
        told["ttft_p50"],
        told["ttft_p99"],
    )
