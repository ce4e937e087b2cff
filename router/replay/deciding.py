"""What decides in a replay: the router's own pair and ledger on a virtual clock, or nothing at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from router.core.events import Decision, RequestRecord
from router.core.failure import Kind
from router.core.health import BreakerRules, EngineHealth, HealthRules
from router.core.ledger import Lease, Ledger
from router.core.live import PathLive
from router.core.load import EngineLoad, Readings
from router.core.pair import Pair
from router.core.policy import FixedPolicy, Policy, Switch
from router.core.words import Outcome, Path, Placement, Rejection
from router.replay.engine import JumpEngine, JumpGpu

LOG_STEPS = 40  # steps that an engine's own accept length is the mean of


class Decider(Protocol):
    """Says where requests go and is told of all that a router sees."""

    def begin(self, key: int) -> Path:
        """The path of a request that starts now."""
        ...

    def end(self, key: int) -> None:
        """The request ended."""
        ...

    def look(self) -> None:
        """Time has passed."""
        ...

    def read(self) -> None:
        """The engines' own numbers are due."""
        ...


def decider(
    policy: Policy, placement: Placement, gpu: JumpGpu, noise: Random, note: Callable[[Switch], None]
) -> Decider:
    """The one that a policy needs.

    One engine leaves no choice. A fixed path leaves none either, if it is the baseline: speculation that does
    harm is left for it, and never the other way round.
    """
    if len(gpu.engines) == 1:
        return Always(next(iter(gpu.engines)))
    if isinstance(policy, FixedPolicy) and policy.path is Path.BASELINE:
        return Always(Path.BASELINE)
    return ByPolicy(policy, placement, gpu, noise, note)


@dataclass(frozen=True, slots=True)
class Always:
    """Every request takes this path, so nothing has to be counted or measured."""

    path: Path

    def begin(self, key: int) -> Path:
        """See `Decider`."""
        return self.path

    def end(self, key: int) -> None:
        """See `Decider`."""

    def look(self) -> None:
        """See `Decider`."""

    def read(self) -> None:
        """See `Decider`."""


class ByPolicy:
    """The router's own pair and ledger.

    Args:
        noise: of the engines' readings.
        note: told of every switch.
    """

    def __init__(
        self,
        policy: Policy,
        placement: Placement,
        gpu: JumpGpu,
        noise: Random,
        note: Callable[[Switch], None],
    ) -> None:
        self._gpu = gpu
        self._noise = noise
        self._readings = {path: Readings(self._clock) for path in gpu.engines}
        self._live = dict.fromkeys(Path, PathLive())
        self._leases: dict[int, Lease] = {}
        self._ledger = Ledger(self._clock, lambda lease: self.look())
        self._pair = Pair(
            "replay",
            placement,
            {path: EngineHealth(BreakerRules(5, 2, 10.0), HealthRules(3, 2)) for path in gpu.engines},
            policy,
            self._ledger,
            self._clock,
            _Recorder(note),
            measure=self._live.__getitem__,
        )

    def _clock(self) -> float:
        return self._gpu.now

    def begin(self, key: int) -> Path:
        """See `Decider`."""
        lease = self._ledger.open()
        decision = self._pair.decide()
        if decision is None:
            raise RuntimeError("an engine of a replay never fails")
        lease.start(decision.path)
        self._leases[key] = lease
        return decision.path

    def end(self, key: int) -> None:
        """See `Decider`."""
        self._leases.pop(key).close(Outcome.OK)

    def look(self) -> None:
        """See `Decider`."""
        self._pair.evaluate()

    def read(self) -> None:
        """See `Decider`."""
        for path, engine in self._gpu.engines.items():
            gain = self._log_line(engine)
            readings = self._readings[path]
            readings.record(
                EngineLoad(
                    self._gpu.now,
                    engine.running,
                    engine.waiting,
                    generation_tokens=engine.tokens,
                    accept_length=gain,
                    prefilled_tokens=engine.prefilled,
                )
            )
            self._live[path] = PathLive(
                at=self._gpu.now,
                tokens_per_second=readings.tokens_per_second(),
                accept_length=gain,
                prefilled_per_second=readings.prefilled_per_second(),
            )

    def _log_line(self, engine: JumpEngine) -> float | None:
        """The accept length as the engine tells it: the mean over some steps of some requests."""
        if not engine.mode.speed.draft_steps or not engine.running:
            return None
        spread = engine.mode.spread() / math.sqrt(LOG_STEPS * engine.running)
        return max(1.0, self._noise.gauss(engine.mode.accept_length, spread))


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
