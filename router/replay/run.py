"""One run: a load, engines and a policy, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from router.core.policy import Policy, Switch
from router.core.words import Path, Placement
from router.replay.deciding import decider
from router.replay.engine import Job, JumpEngine, JumpGpu
from router.replay.load import Load

TICK = 0.25  # how often the pair is evaluated when nothing happens; the router does it ten times a second
READING = 1.0  # how often it reads its engines' load
NEVER = (math.inf, 0, 0)

AcceptLengths = Callable[[float], float]


@dataclass(slots=True)
class Run:
    """What came of it.

    Attributes:
        jobs: every request, in the order of arrival.
        switches: changes of the active path.
        mixed_seconds: time in which both engines had requests.
        seconds: until the last request ended.
        served: requests by path.
    """

    jobs: list[Job] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    mixed_seconds: float = 0.0
    seconds: float = 0.0
    served: dict[Path, int] = field(default_factory=lambda: dict.fromkeys(Path, 0))


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to serve a load.

    Attributes:
        name: for tables.
        placement: of its engines.
        engines: makes them anew for each run.
        policy: what decides.
    """

    name: str
    placement: Placement
    engines: Callable[[Random], Mapping[Path, JumpEngine]]
    policy: Policy


def play(contender: Contender, load: Load, seed: int, accept_length: AcceptLengths | None = None) -> Run:
    """Serve the load to its end.

    Args:
        seed: fixes arrivals, lengths and luck; the same for every contender.
        accept_length: of the speculative engine by time, where the workload changes.
    """
    return _Replay(contender, load, seed, accept_length).play()


class _Replay:
    def __init__(
        self, contender: Contender, load: Load, seed: int, accept_length: AcceptLengths | None
    ) -> None:
        self._load = load
        self._rng = Random(f"{seed} arrivals")
        self._accept_length = accept_length
        engines = contender.engines(Random(f"{seed} luck"))
        self._gpu = JumpGpu(engines, shared=contender.placement is Placement.SHARED)
        self.run = Run()
        self._decider = decider(
            contender.policy,
            contender.placement,
            self._gpu,
            Random(f"{seed} readings"),
            self.run.switches.append,
        )
        self._in_flight = 0
        self._arrivals = iter([] if load.closed else load.arrivals(self._rng))
        self._await()
        self._tick_at = self._read_at = 0.0

    def play(self) -> Run:
        gpu = self._gpu
        while self._open():
            at = min(self._tick_at, self._read_at, gpu.next_event_at(), self._arrival_at)
            for job in gpu.advance(at):
                self._in_flight -= 1
                self._decider.end(job.key)
                self.run.seconds = at
                self._fill()
            while self._arrival_at <= at:
                self._submit(self._coming[1], self._coming[2])
                self._await()
            if self._read_at <= at:
                self._read_at += READING
                self._decider.read()
            if self._tick_at <= at:
                self._tick_at += TICK
                self._tick()
        self.run.mixed_seconds = gpu.mixed_seconds
        return self.run

    def _open(self) -> bool:
        if self._in_flight or self._arrival_at < math.inf:
            return True
        return self._load.closed and self._gpu.now < self._load.duration

    def _await(self) -> None:
        """Look for the next arrival; at the end there is one that never comes."""
        self._coming = next(self._arrivals, NEVER)
        self._arrival_at = self._coming[0]

    def _fill(self) -> None:
        """In a closed loop: as many requests as there are users."""
        users = self._load.users
        if users is None or self._gpu.now >= self._load.duration:
            return
        while self._in_flight < round(users(self._gpu.now)):
            self._submit(*self._load.shape(self._rng))

    def _submit(self, prompt: int, output: int) -> None:
        job = Job(len(self.run.jobs), self._gpu.now, prompt, output)
        path = self._decider.begin(job.key)
        self._in_flight += 1
        self._gpu.engines[path].submit(job)
        self.run.jobs.append(job)
        self.run.served[path] += 1

    def _tick(self) -> None:
        if self._accept_length:
            for engine in self._gpu.engines.values():
                engine.set_accept_length(self._accept_length(self._gpu.now))
        self._decider.look()
        self._fill()
