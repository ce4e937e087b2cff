"""One simulated engine: continuous batching over time that is handed in.

A step is an amount of work in seconds of an undisturbed GPU; `SimGpu` decides how fast that work goes by.
Between steps the waiting queue is admitted in order up to the running limit, its prefill rides on the next
step, and at the end of a step every request in it gains tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import accumulate
from math import comb
from random import Random

from router.sim.gauges import LOADS_INTERVAL_STEPS, LOG_INTERVAL_STEPS, Counters, Snapshot, Window
from router.sim.prefix import PrefixCache
from router.sim.request import Delivery, Finish, Phase, SimRequest
from router.sim.speed import EngineSpeed


class QueueFull(Exception):
    """The engine has its `max_queued_requests` waiting already."""


class SimEngine:
    """State of one engine. Driven by `SimGpu`; not meant to be driven alone.

    `kv_tokens`: size of the KV pool, which is also what the prefix cache remembers.
    `max_queued_requests`: None means no bound, SGLang's default.
    """

    def __init__(
        self,
        speed: EngineSpeed,
        rng: Random,
        *,
        kv_tokens: int = 400_000,
        max_queued_requests: int | None = None,
    ) -> None:
        self.speed = speed
        self.kv_tokens = kv_tokens
        self.max_queued_requests = max_queued_requests
        self.cache = PrefixCache(kv_tokens)
        self.counters = Counters()
        self.metrics_snapshot = Snapshot()
        self.loads_snapshot = Snapshot()
        self.work_left = 0.0
        self.stepping = False
        self._rng = rng
        self._running: list[SimRequest] = []
        self._waiting: deque[SimRequest] = deque()
        self._used_tokens = 0
        self._decode_steps = 0
        self._window = Window()
        self._accept_length = speed.accept_length
        self._draw = _drawer(speed.accept_length, speed.draft_steps, rng)

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether the engine has any work."""
        return bool(self._running or self._waiting)

    @property
    def used_tokens(self) -> int:
        """Tokens of the KV pool held by running requests."""
        return self._used_tokens

    @property
    def accept_length(self) -> float:
        """Mean tokens per step and request from now on (1.0 without speculation)."""
        return self._accept_length

    @accept_length.setter
    def accept_length(self, value: float) -> None:
        if not 1.0 <= value <= self.speed.draft_steps + 1:
            raise ValueError(f"accept length must be from 1 to {self.speed.draft_steps + 1}, got {value}")
        self._accept_length = value
        self._draw = _drawer(value, self.speed.draft_steps, self._rng)

    def submit(self, request: SimRequest, now: float) -> None:
        """Queue a request and start a step if none runs. Raises QueueFull."""
        if request.phase is not Phase.NEW:
            raise ValueError(f"request {request.rid!r} was submitted before")
        if self.max_queued_requests is not None and len(self._waiting) >= self.max_queued_requests:
            raise QueueFull
        if not self.busy:
            self._window.restart(now)
        request.phase = Phase.WAITING
        request.submitted_at = now
        self._waiting.append(request)
        if not self.stepping:
            self._begin_step(now)

    def abort(self, request: SimRequest, now: float) -> Delivery | None:
        """Take a request out and free its slot at once. None when it isn't here any more."""
        if request.phase is Phase.WAITING:
            self._waiting.remove(request)
        elif request.phase is Phase.RUNNING:
            self._running.remove(request)
            self._used_tokens -= request.prompt_tokens + request.generated
        else:
            return None
        request.phase = Phase.DONE
        request.finish = Finish.ABORT
        request.finished_at = now
        self.counters.aborted += 1
        self._count_finished(request)
        if not self.busy:
            self._go_idle(now)
        return Delivery(request, 0, Finish.ABORT, now)

    def finish_step(self, now: float) -> list[Delivery]:
        """End the step that runs, hand out its tokens, begin the next one."""
        deliveries: list[Delivery] = []
        gained = decoding = 0
        for request in self._running:
            first = request.first_token_at < 0
            tokens = 1 if first else self._draw()
            left = request.output_tokens - request.generated
            finish: Finish | None = None
            if tokens >= left:
                tokens = left
                finish = request.finish
                request.phase = Phase.DONE
                request.finished_at = now
            request.generated += tokens
            if first:
                request.first_token_at = now
            else:
                request.steps += 1
                if self.speed.draft_steps:
                    request.count_drafts(tokens - 1, self.speed.draft_steps)
                decoding += 1
                gained += tokens
            self._used_tokens += tokens
            deliveries.append(Delivery(request, tokens, finish, now))
        self._drop_finished(deliveries)
        self._after_decode(gained, decoding, now)
        self._begin_step(now)
        return deliveries

    def flush_cache(self) -> bool:
        """Forget all prefixes; refused (False) while there is work, as SGLang does."""
        if self.busy:
            return False
        self.cache.clear()
        return True

    def _begin_step(self, now: float) -> None:
        decoding = len(self._running)
        admitted, uncached = self._admit(now)
        if not self._running:
            self._go_idle(now)
            return
        self.stepping = True
        self.work_left = self.speed.pass_seconds(decoding, admitted, uncached)
        if admitted:
            # SGLang logs a prefill with the batch as it was before it.
            self.metrics_snapshot = self._snapshot(now, running=decoding)
            self.loads_snapshot = self._snapshot(now)
            self.counters.prefill_seconds += self.speed.prefill_per_token * uncached

    def _admit(self, now: float) -> tuple[int, int]:
        admitted = uncached = 0
        while self._waiting and len(self._running) < self.speed.max_running_requests:
            request = self._waiting.popleft()
            request.phase = Phase.RUNNING
            request.admitted_at = now
            request.cached_tokens = self.cache.match(request.blocks, request.prompt_tokens)
            self.cache.remember(request.blocks)
            self._running.append(request)
            self._used_tokens += request.prompt_tokens
            admitted += 1
            uncached += request.prompt_tokens - request.cached_tokens
            self.counters.cached_tokens += request.cached_tokens
        self.counters.prefilled_tokens += uncached
        return admitted, uncached

    def _drop_finished(self, deliveries: list[Delivery]) -> None:
        finished = [delivery.request for delivery in deliveries if delivery.finish is not None]
        if not finished:
            return
        self._running = [request for request in self._running if request.phase is Phase.RUNNING]
        for request in finished:
            self._used_tokens -= request.prompt_tokens + request.generated
            self._count_finished(request)

    def _count_finished(self, request: SimRequest) -> None:
        self.counters.requests += 1
        self.counters.prompt_tokens += request.prompt_tokens
        self.counters.generation_tokens += request.generated

    def _after_decode(self, gained: int, decoding: int, now: float) -> None:
        if not decoding:
            return
        self.counters.decoded_tokens += gained
        if self.speed.draft_steps:
            self.counters.verify_calls += decoding
            self.counters.verified_tokens += gained
        self._window.add(gained, decoding)
        self._decode_steps += 1
        if self._window.steps >= LOG_INTERVAL_STEPS:
            rate, gain = self._window.close(now)
            self.metrics_snapshot = self._snapshot(now, rate=rate, gain=gain)
            self.loads_snapshot = self._snapshot(now)
        elif self._decode_steps % LOADS_INTERVAL_STEPS == 0:
            self.loads_snapshot = self._snapshot(now)

    def _go_idle(self, now: float) -> None:
        self.stepping = False
        self.work_left = 0.0
        self.metrics_snapshot = self._snapshot(now)
        self.loads_snapshot = self._snapshot(now, rate=0.0)

    def _snapshot(
        self, now: float, *, running: int | None = None, rate: float | None = None, gain: float | None = None
    ) -> Snapshot:
        last = self.metrics_snapshot
        return Snapshot(
            at=now,
            running=len(self._running) if running is None else running,
            waiting=len(self._waiting),
            waiting_tokens=sum(request.prompt_tokens for request in self._waiting),
            used_tokens=self._used_tokens,
            tokens_per_second=last.tokens_per_second if rate is None else rate,
            accept_length=last.accept_length if gain is None or not self.speed.draft_steps else gain,
        )


def _drawer(accept_length: float, draft_steps: int, rng: Random) -> Callable[[], int]:
    """Draws the tokens of one step: 1 plus a binomial of the draft's steps, so the mean is exactly
    `accept_length`.
    """
    if accept_length <= 1.0:
        return lambda: 1
    chance = (accept_length - 1) / draft_steps
    weights = [
        comb(draft_steps, k) * chance**k * (1 - chance) ** (draft_steps - k) for k in range(draft_steps)
    ]
    bounds = list(accumulate(weights))
    uniform = rng.random
    return lambda: 1 + bisect_right(bounds, uniform())
