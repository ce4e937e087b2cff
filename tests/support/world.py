"""A pair in a few lines: what a policy's switches do to what it measures. The load is given from outside."""

from __future__ import annotations

from dataclasses import dataclass, field

from router.core.calibration import Calibration
from router.core.live import Live, PathLive
from router.core.policy import Policy, PolicyState, Snapshot, Switch
from router.core.words import Path

BOTH = frozenset(Path)


@dataclass
class World:
    """Time passes in `step`s of seconds; the old path drains linearly in `drain` seconds.

    `slower` says how many times slower than in `engines` each path really is.
    """

    policy: Policy
    engines: Calibration
    accept_length: float
    n: int = 4
    step: float = 0.5
    drain: float = 4.0
    slower: dict[Path, float] = field(default_factory=lambda: dict.fromkeys(Path, 1.0))
    now: float = 1000.0
    faults: int = 0
    measured: bool = True

    def __post_init__(self) -> None:
        self.state = PolicyState(active=self.policy.first_path, regime=self.policy.first_path)
        self.switches: list[Switch] = []
        self.seen: list[Snapshot] = []
        self._left: tuple[Path, float, int] | None = None
        self._read_at = self.now

    def run(self, seconds: float) -> None:
        """Let so many seconds pass."""
        end = self.now + seconds
        while self.now < end:
            self.now += self.step
            self.look()

    def look(self) -> None:
        """Show the policy this moment."""
        seen = Snapshot(self.now, self.n, BOTH, live=self.live())
        self.seen.append(seen)
        self.state, switch = self.policy.step(self.state, seen)
        if switch:
            self.switches.append(switch)
            self._left = (switch.origin, self.now, self.n)

    def live(self) -> Live:
        """What is measured at this moment: rates are those of the present load."""
        active = {self.state.active: self.n, self.state.active.other: 0}
        if self._left:
            path, since, count = self._left
            draining = min(self.n, int(count * max(0.0, 1.0 - (self.now - since) / self.drain)))
            active = {path: draining, path.other: self.n - draining}
        mixed = all(active.values())
        if self.now - self._read_at >= 1.0:
            self._read_at = self.now
        found = {}
        for path, count in active.items():
            rate = self.engines.tokens_per_second(path, count, self.accept_length) / self.slower[path]
            rate *= self.engines.mixed_fraction(path) if mixed else 1.0
            gain = self.accept_length if path is Path.SPECULATIVE and count else None
            known = self.measured
            found[path] = PathLive(
                count, self._read_at if known else None, rate if known else None, gain if known else None
            )
        return Live(found[Path.SPECULATIVE], found[Path.BASELINE], self.faults)
