"""Who is started when, and what happens when one dies. Pure: events and times in, steps to take out.

Engines on shared GPUs are brought up one at a time, from the first look at free memory to the last check of
it: whatever another one allocated in between would be charged to the KV pool of the one that is starting. An
engine that dies before it was ever up ends the launch, for the next attempt would die in the same way. One
that was up is restarted with back-off, while the other goes on serving. When no engine is left to try, the
launch ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from router.core.words import Path


class Step(StrEnum):
    """What is done for one engine, in this order."""

    CLEAR = "clear"  # wait until GPU memory stands still
    START = "start"  # measure what is free, choose the fraction, start the process
    ANSWER = "answer"  # wait until it says that it is ready
    TOKEN = "token"  # have it make one token
    BURN_IN = "burn-in"  # the longest prefill step, then the largest batch
    SETTLE = "settle"  # wait until GPU memory stands still
    VERIFY = "verify"  # compare memory with the plan


STEPS = tuple(Step)
WATCHED = (Step.ANSWER, Step.TOKEN, Step.BURN_IN)
"""Steps that last as long as there is progress."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds, and how many failures in a row an engine may have.

    Attributes:
        stall: longest time without progress while an engine starts.
        delay, longest_delay: before the first restart; it doubles up to the longest.
        attempts: restarts in a row before an engine is given up.
        stable: how long an engine must be up for its failures to be forgotten.
    """

    stall: float = 900.0
    delay: float = 1.0
    longest_delay: float = 60.0
    attempts: int = 5
    stable: float = 600.0


class Phase(StrEnum):
    """Where an engine is."""

    WAITING = "waiting"
    STARTING = "starting"
    UP = "up"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Do:
    """Take this step; answer with `done` or `lost`."""

    path: Path
    step: Step


@dataclass(frozen=True, slots=True)
class Ended:
    """Why everything must be stopped."""

    path: Path
    why: str


@dataclass(slots=True)
class _Engine:
    phase: Phase = Phase.WAITING
    step: Step = Step.CLEAR
    issued: bool = False
    since: float = 0.0  # of the phase; where it waits, until when
    progress: float = 0.0
    was_up: bool = False
    failures: int = 0


class Sequence:
    """The engines of a plan.

    Args:
        order: in which they are started.
        exclusive: one at a time, because they share GPUs.
    """

    def __init__(self, order: Iterable[Path], exclusive: bool, rules: Rules) -> None:
        self._engines = {path: _Engine() for path in order}
        self._exclusive = exclusive
        self.rules = rules
        self.ended: Ended | None = None
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether all engines have been up together."""
        return self._complete

    def phase(self, path: Path) -> Phase:
        """Where an engine is."""
        return self._engines[path].phase

    def due(self, path: Path) -> float:
        """When a waiting engine is started next."""
        return self._engines[path].since

    def step(self, path: Path) -> Step | None:
        """The step that is being taken, or None."""
        engine = self._engines[path]
        return engine.step if engine.phase is Phase.STARTING else None

    def orders(self, now: float) -> list[Do]:
        """The steps to take now; each is given out once."""
        if self.ended:
            return []
        found = []
        for path, engine in self._engines.items():
            if engine.phase is Phase.WAITING and engine.since <= now and self._may_start():
                engine.phase, engine.step, engine.issued = Phase.STARTING, STEPS[0], False
                engine.since = engine.progress = now
            if engine.phase is Phase.STARTING and not engine.issued:
                engine.issued, engine.progress = True, now
                found.append(Do(path, engine.step))
        return found

    def _may_start(self) -> bool:
        return not self._exclusive or all(
            engine.phase is not Phase.STARTING for engine in self._engines.values()
        )

    def done(self, path: Path, step: Step, now: float) -> None:
        """The step was taken. News of a step that is not being taken any more are nothing."""
        engine = self._engines[path]
        if engine.phase is not Phase.STARTING or engine.step is not step:
            return
        if step is STEPS[-1]:
            engine.phase, engine.since, engine.was_up = Phase.UP, now, True
            self._complete = self._complete or all(each.phase is Phase.UP for each in self._engines.values())
        else:
            engine.step, engine.issued = STEPS[STEPS.index(step) + 1], False

    def progressed(self, path: Path, now: float) -> None:
        """A starting engine did something new."""
        self._engines[path].progress = now

    def stalled(self, now: float) -> list[Path]:
        """Engines that live and did nothing new for too long; kill them and say `lost`."""
        return [
            path
            for path, engine in self._engines.items()
            if engine.phase is Phase.STARTING
            and engine.step in WATCHED
            and now - engine.progress >= self.rules.stall
        ]

    def lost(self, path: Path, now: float, why: str) -> None:
        """The engine's process ended, or a step failed and the process has been ended."""
        engine = self._engines[path]
        if engine.phase not in (Phase.STARTING, Phase.UP):
            return
        if not engine.was_up:
            engine.phase = Phase.GIVEN_UP
            self.ended = self.ended or Ended(path, why)
            return
        if engine.phase is Phase.UP and now - engine.since >= self.rules.stable:
            engine.failures = 0
        engine.failures += 1
        if engine.failures > self.rules.attempts:
            engine.phase = Phase.GIVEN_UP
            if all(each.phase is Phase.GIVEN_UP for each in self._engines.values()):
                self.ended = self.ended or Ended(path, why)
            return
        engine.phase = Phase.WAITING
        engine.since = now + min(self.rules.longest_delay, self.rules.delay * 2 ** (engine.failures - 1))
