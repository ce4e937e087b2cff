"""The simulated engine and GPU of `router.sim`, made to jump instead of to walk.

The same physics: a step takes the time that `EngineSpeed` gives for its batch, prompts are prefilled along
with the next step, every request gains the accept length per step, and on a shared GPU each engine keeps
its mixed fraction while the other one has work. Between two events that change the batch all steps are
equal, so many of them pass at once. That makes an hour of a busy server a matter of a second.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from router.core.words import Path
from router.sim.speed import EngineSpeed

_CLOSE = 1e-9


class Job:
    """One request. Times are virtual seconds; nan until they happen."""

    __slots__ = ("arrived", "done", "first", "key", "output", "prompt")

    def __init__(self, key: int, arrived: float, prompt: int, output: int) -> None:
        self.key = key
        self.arrived = arrived
        self.prompt = prompt
        self.output = max(1, output)
        self.first = math.nan
        self.done = math.nan


@dataclass(slots=True)
class Mode:
    """One way in which an engine can take its steps.

    Attributes:
        speed: step times and prefill.
        accept_length: tokens per step and request.
        tax: its step times are so many times longer than `speed` says.
    """

    speed: EngineSpeed
    accept_length: float
    tax: float = 1.0
    _seconds: dict[int, float] = field(init=False, repr=False, default_factory=dict)

    def seconds(self, batch: int) -> float:
        """Seconds of a step."""
        found = self._seconds.get(batch)
        if found is None:
            found = self._seconds[batch] = self.speed.steps.at(batch) * self.tax
        return found

    def rate(self, batch: int) -> float:
        """Tokens per second of the batch."""
        return batch * self.accept_length / self.seconds(batch)

    def spread(self) -> float:
        """Standard deviation of the tokens of one step of one request."""
        drafts = self.speed.draft_steps
        if not drafts:
            return 0.0
        chance = (self.accept_length - 1.0) / drafts
        return math.sqrt(max(0.0, drafts * chance * (1.0 - chance)))


class JumpEngine:
    """One engine, driven by `JumpGpu`.

    Args:
        modes: with several of them the engine takes the faster one at every step (an ideal adaptive engine).
        rng: for how many steps a request needs.
    """

    def __init__(self, modes: Sequence[Mode], rng: Random) -> None:
        self.modes = tuple(modes)
        self.mode = self.modes[0]
        self.tokens = 0.0  # generated so far
        self.prefilled = 0  # prompt tokens computed so far
        self._rng = rng
        self._gained = 0.0  # tokens that a request has gained that has been decoding from the beginning
        self._decoding: list[tuple[float, int, Job]] = []
        self._fresh: list[Job] = []
        self._waiting: deque[Job] = deque()
        self._left = 0.0  # seconds of work to the end of the step
        self._step = 0.0  # seconds of the steps after it
        self._until: float | None = None  # what `to_event` found, while it holds
        self.busy = False  # whether it has any work

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._decoding) + len(self._fresh)

    @property
    def waiting(self) -> int:
        """Requests in its queue."""
        return len(self._waiting)

    @property
    def mixed_fraction(self) -> float:
        """Share of its speed that is left while the other engine has work."""
        return self.mode.speed.mixed_fraction

    def set_accept_length(self, value: float) -> None:
        """Of the modes that speculate, from now on."""
        self._until = None
        for mode in self.modes:
            if mode.speed.draft_steps:
                mode.accept_length = value

    def submit(self, job: Job) -> None:
        """Queue a request; a step begins if none runs."""
        self._waiting.append(job)
        self._until = None
        if not self.busy:
            self._begin()

    def to_event(self) -> float:
        """Seconds of undisturbed work to the next change of the batch; only while busy."""
        if self._until is None:
            self._until = self._left
            if not (self._fresh or self._room()):
                self._until += (self._steps_to_finish() - 1) * self._step
        return self._until

    def work(self, seconds: float) -> None:
        """Let so much work be done, less than `to_event`."""
        self._until = None
        if seconds < self._left:
            self._left -= seconds
            return
        beyond = seconds - self._left
        steps = 1 + int(beyond / self._step)
        self._gain(steps)
        self._left = self._step - (beyond - (steps - 1) * self._step)

    def event(self, now: float) -> list[Job]:
        """The change of the batch that `to_event` announced; the requests that end with it."""
        self._gain(1 if self._fresh or self._room() else self._steps_to_finish())
        self.tokens += len(self._fresh)
        done = []
        for job in self._fresh:
            job.first = now
            if job.output > 1:
                heapq.heappush(self._decoding, (self._gained + self._need(job), job.key, job))
            else:
                job.done = now
                done.append(job)
        self._fresh.clear()
        while self._decoding and self._decoding[0][0] <= self._gained + _CLOSE:
            job = heapq.heappop(self._decoding)[2]
            job.done = now
            done.append(job)
        self._begin()
        return done

    def _gain(self, steps: int) -> None:
        gained = steps * self.mode.accept_length
        self._gained += gained
        self.tokens += gained * len(self._decoding)

    def _need(self, job: Job) -> float:
        """Tokens of mean steps that the request needs after its first one: its own, give or take luck."""
        tokens = job.output - 1
        spread = self.mode.spread()
        if not spread:
            return tokens
        luck = self._rng.gauss(0.0, spread * math.sqrt(tokens / self.mode.accept_length))
        return max(_CLOSE, tokens + luck)

    def _room(self) -> bool:
        return bool(self._waiting) and self.running < self.mode.speed.max_running_requests

    def _steps_to_finish(self) -> int:
        missing = self._decoding[0][0] - self._gained
        return max(1, math.ceil(missing / self.mode.accept_length - _CLOSE))

    def _begin(self) -> None:
        self._until = None
        decoding, uncached = len(self._decoding), 0
        while self._room():
            job = self._waiting.popleft()
            self._fresh.append(job)
            uncached += job.prompt
        self.prefilled += uncached
        batch = self.running
        self.busy = batch > 0
        if not batch:
            return
        if len(self.modes) > 1:
            self.mode = max(self.modes, key=lambda mode: mode.rate(batch))
        self._step = self.mode.seconds(batch)
        self._left = self._step
        if self._fresh:
            speed = self.mode.speed
            if not decoding:
                self._left = max(self._left, speed.prefill_base)
            self._left += speed.prefill_per_token * uncached


class JumpGpu:
    """Engines and their common time `now`, in seconds.

    Args:
        shared: on the same GPU, or on one each.
    """

    def __init__(self, engines: Mapping[Path, JumpEngine], *, shared: bool) -> None:
        self.engines = dict(engines)
        self._all = tuple(self.engines.values())
        self.shared = shared
        self.now = 0.0
        self.mixed_seconds = 0.0

    @property
    def mixed(self) -> bool:
        """Whether more than one engine has work."""
        return len(self._busy()) > 1

    def next_event_at(self) -> float:
        """When the next batch changes if nothing is submitted before; infinite when all is idle."""
        busy = self._busy()
        if len(busy) == 1:
            return self.now + busy[0].to_event()
        return min((self._ends(engine, self.shared) for engine in busy), default=math.inf)

    def advance(self, to: float) -> list[Job]:
        """Move time to `to`, not beyond the next event; the requests that end then."""
        busy = self._busy()
        slow = self.shared and len(busy) > 1
        passed = to - self.now
        if slow:
            self.mixed_seconds += passed
        due = []
        for engine in busy:
            if self._ends(engine, slow) <= to + _CLOSE:
                due.append(engine)
            else:
                engine.work(passed * engine.mixed_fraction if slow else passed)
        self.now = to
        return [job for engine in due for job in engine.event(to)]

    def _busy(self) -> Sequence[JumpEngine]:
        for engine in self._all:
            if not engine.busy:
                return [each for each in self._all if each.busy]
        return self._all

    def _ends(self, engine: JumpEngine, slow: bool) -> float:
        work = engine.to_event()
        return self.now + (work / engine.mixed_fraction if slow else work)
