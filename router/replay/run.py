"""One run: a load, engines and a policy; the router's own pair and ledger decide, on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from router.core.events import Decision, RequestRecord
from router.core.failure import Kind
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.ledger import Lease, Ledger
from router.core.live import PathLive
from router.core.load import EngineLoad, Readings
from router.core.pair import Pair
from router.core.policy import Policy, Switch
from router.core.words import Outcome, Path, Placement, Rejection
from router.replay.engine import Job, JumpEngine, JumpGpu
from router.replay.load import Load

TICK = 0.25  # how often the pair is evaluated when nothing happens; the router does it ten times a second
READING = 1.0  # how often it reads its engines' load
LOG_STEPS = 40  # steps that an engine's own accept length is the mean of

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
        self._noise = Random(f"{seed} readings")
        self._accept_length = accept_length
        engines = contender.engines(Random(f"{seed} luck"))
        self._gpu = JumpGpu(engines, shared=contender.placement is Placement.SHARED)
        self._readings = {path: Readings(self._clock) for path in engines}
        self._live = dict.fromkeys(Path, PathLive())
        self._ledger = Ledger(self._clock, self._on_close)
        self.run = Run()
        self._pair = Pair(
            "replay",
            contender.placement,
            {path: EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2)) for path in engines},
            contender.policy,
            self._ledger,
            self._clock,
            _Recorder(self.run.switches.append),
            measure=self._measure,
        )
        self._leases: dict[int, Lease] = {}
        self._arrivals = [] if load.closed else load.arrivals(self._rng)
        self._next = 0
        self._tick_at = self._read_at = 0.0

    def _on_close(self, _: Lease) -> None:
        self._pair.evaluate()

    def _clock(self) -> float:
        return self._gpu.now

    def play(self) -> Run:
        while self._open():
            at = min(self._tick_at, self._read_at, self._gpu.next_event_at(), self._arrival_at())
            for job in self._gpu.advance(at):
                self._leases.pop(job.key).close(Outcome.OK)
                self.run.seconds = at
                self._fill()
            while self._arrival_at() <= at:
                _, prompt, output = self._arrivals[self._next]
                self._next += 1
                self._submit(prompt, output)
            if self._read_at <= at:
                self._read_at += READING
                self._read()
            if self._tick_at <= at:
                self._tick_at += TICK
                self._tick()
        self.run.mixed_seconds = self._gpu.mixed_seconds
        return self.run

    def _open(self) -> bool:
        coming = self._next < len(self._arrivals) or (
            self._load.closed and self._gpu.now < self._load.duration
        )
        return coming or bool(self._leases)

    def _arrival_at(self) -> float:
        return self._arrivals[self._next][0] if self._next < len(self._arrivals) else math.inf

    def _fill(self) -> None:
        """In a closed loop: as many requests as there are users."""
        users = self._load.users
        if users is None or self._gpu.now >= self._load.duration:
            return
        while len(self._leases) < round(users(self._gpu.now)):
            self._submit(*self._load.shape(self._rng))

    def _submit(self, prompt: int, output: int) -> None:
        job = Job(len(self.run.jobs), self._gpu.now, prompt, output)
        lease = self._ledger.open()
        decision = self._pair.decide()
        if decision is None:
            raise RuntimeError("an engine of a replay never fails")
        lease.start(decision.path)
        self._gpu.engines[decision.path].submit(job)
        self._leases[job.key] = lease
        self.run.jobs.append(job)
        self.run.served[decision.path] += 1

    def _tick(self) -> None:
        if self._accept_length:
            self._set_accept_length(self._accept_length(self._gpu.now))
        self._pair.evaluate()
        self._fill()

    def _set_accept_length(self, value: float) -> None:
        for engine in self._gpu.engines.values():
            for mode in engine.modes:
                if mode.speed.draft_steps:
                    mode.accept_length = value

    def _read(self) -> None:
        now = self._gpu.now
        for path, engine in self._gpu.engines.items():
            gain = None
            if engine.mode.speed.draft_steps and engine.running:
                spread = engine.mode.spread() / math.sqrt(LOG_STEPS * engine.running)
                gain = max(1.0, self._noise.gauss(engine.mode.accept_length, spread))
            load = EngineLoad(
                now, engine.running, engine.waiting, generation_tokens=engine.tokens, accept_length=gain
            )
            readings = self._readings[path]
            readings.record(load)
            self._live[path] = PathLive(
                at=now, tokens_per_second=readings.tokens_per_second(), accept_length=gain
            )

    def _measure(self, path: Path) -> PathLive:
        return self._live[path]


@dataclass(frozen=True, slots=True)
class _Recorder:
    """An observer that keeps the switches."""

    note: Callable[[Switch], None]

    def on_decision(self, decision: Decision) -> None:
        """See `Observer`."""

    def on_retry(self, origin: Path, target: Path, kind: Kind) -> None:
        """See `Observer`."""

    def on_switch(self, switch: Switch) -> None:
        """See `Observer`."""
        self.note(switch)

    def on_rejected(self, reason: Rejection) -> None:
        """See `Observer`."""

    def on_finished(self, record: RequestRecord) -> None:
        """See `Observer`."""
