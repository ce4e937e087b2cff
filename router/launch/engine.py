"""One engine through the steps of its start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

import httpx

from router.core.words import Path
from router.launch.engine_log import LogReader
from router.launch.memory import Verdict, as_started, free_on, used_by, verify
from router.launch.meter import Meter
from router.launch.plan import EnginePlan, GpuMemory
from router.launch.probe import BurnIn, NotYet, Target, burn_in, one_token, pool_tokens, ready
from router.launch.process import EngineProcess, rotate
from router.launch.procfs import listeners, title
from router.launch.request import ports_of
from router.launch.sequence import Step
from router.launch.setup import DoesNotFit, Keys, Setup, StepFailed, View

ASK_EVERY = 0.25
SETTLE_LIMIT = 180.0
"""Seconds; memory of an engine that serves meanwhile may never stand still."""

MARGIN = 8
"""Tokens that a burn-in prompt stays below the longest request."""


@dataclass(frozen=True, slots=True)
class Started:
    """How the running process was started.

    Attributes:
        plan: with the pool that it was started with.
        tokens: the cap on its pool, or None.
        before: what was free on its GPUs; None where memory is not measured.
    """

    plan: EnginePlan
    fraction: float
    tokens: int | None
    before: Mapping[int, int] | None


class Engine:
    """One engine; over its life it may have several processes.

    Args:
        meter: None where memory cannot be measured.
    """

    def __init__(
        self, setup: Setup, path: Path, meter: Meter | None, client: httpx.AsyncClient, view: View
    ) -> None:
        self.path = path
        self.process: EngineProcess | None = None
        self.reader = LogReader()
        self.started: Started | None = None
        self.verdict: Verdict | None = None
        self.answered = ""
        self.ending = False
        self.was_up = False
        self._setup = setup
        self._meter = meter
        self._client = client
        self._view = view
        keys, ports = setup.keys.get(path, Keys()), ports_of(setup.launch, path)
        self.target = Target(setup.launch.host, ports.http, keys.api_key)
        self.ports = (ports.http, ports.nccl)

    @property
    def log(self) -> FilePath:
        """The file of its output."""
        return self._setup.folder.path / f"{self.path.value}.log"

    @property
    def _running(self) -> Started:
        assert self.started is not None, "no step before START asks"
        return self.started

    async def take(self, step: Step, other: Engine | None) -> None:
        """Take one step. Raises StepFailed."""
        match step:
            case Step.CLEAR | Step.SETTLE:
                await self._still()
            case Step.START:
                await self._start(other)
            case Step.ANSWER:
                await self._until(self._ready)
            case Step.TOKEN:
                await self._until(lambda: one_token(self._client, self.target))
                self._view.say(self.path, "it serves; burn-in at the planned batch")
            case Step.BURN_IN:
                await self._burn_in()
            case Step.VERIFY:
                await self._verify()

    async def _still(self) -> None:
        if self._meter is None:
            return
        gpus = self._setup.plan.engine(self.path).gpus
        if not await self._meter.still(gpus, self._setup.launch.start.settle, SETTLE_LIMIT):
            self._view.say(
                self.path,
                f"GPU memory still changes after {SETTLE_LIMIT:.0f} s; going on with what is free now",
                trouble=True,
            )

    async def _start(self, other: Engine | None) -> None:
        setup = self._setup
        planned = setup.plan.engine(self.path)
        chosen, before, fraction = None, None, planned.fraction
        if self._meter is not None:
            gpus = await self._meter.read()
            before = free_on(gpus, planned.gpus)
            chosen = setup.choose(self.path, gpus, other.pids() if other else ())
            planned, fraction = as_started(planned, chosen), chosen.fraction
        command = setup.command(self.path, chosen)
        self.started = Started(planned, fraction, planned.tokens if setup.capped else None, before)
        for name, text in command.files.items():
            await asyncio.to_thread(FilePath(name).write_text, text, encoding="utf-8")
        rotate(self.log)
        self.reader, self.verdict, self.answered = LogReader(), None, ""
        try:
            self.process = EngineProcess(
                command.argv, setup.env(command), self.log, setup.folder.marker(self.path.value)
            )
        except OSError as error:
            raise StepFailed(f"launch.sglang.python: {command.argv[0]} cannot be run: {error}") from None
        free = f", {min(before.values()) / (1 << 30):.1f} GiB free" if before else ""
        cap = f", {planned.tokens} tokens" if self.started.tokens else ""
        self._view.say(
            self.path,
            f"started: pid {self.process.pid}, mem-fraction-static {fraction:.4f}{cap}{free}; log {self.log}",
        )

    def pids(self) -> set[int]:
        """Of all its processes."""
        return {member.pid for member in self.process.members()} if self.process else set()

    async def _until(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask again until it is so. The one who watches the process ends this, not a number of attempts."""
        while True:
            try:
                return await ask()
            except NotYet as answer:
                self.answered = str(answer)
            await asyncio.sleep(ASK_EVERY)

    async def _ready(self) -> None:
        await ready(self._client, self.target)
        holders = set(await asyncio.to_thread(listeners, self.target.port))
        if holders and not holders & await asyncio.to_thread(self.pids):
            who = ", ".join(f"pid {pid} ({title(pid)})" for pid in sorted(holders))
            raise StepFailed(f"port {self.target.port} is answered by another program: {who}")

    async def _burn_in(self) -> None:
        engine, launch = self._running.plan, self._setup.launch
        longest = (
            min(launch.context, engine.tokens or launch.context) - engine.profile.reserved_tokens - MARGIN
        )
        size = BurnIn(max(1, min(launch.chunked_prefill, longest)), engine.running)
        began = time.monotonic()
        try:
            await burn_in(self._client, self.target, size, launch.start.stall)
        except NotYet as answer:
            self._view.say(
                self.path,
                f"burn-in of {size.prompt} tokens and {size.batch} requests failed: {answer}",
                trouble=True,
            )
            return
        took = time.monotonic() - began
        self._view.say(self.path, f"burnt in: {size.prompt} tokens, then {size.batch} requests, {took:.1f} s")

    async def _verify(self) -> None:
        tokens = await pool_tokens(self._client, self.target)
        gpus = await self._meter.read() if self._meter else None
        engine = self._running.plan
        used = self._used(gpus)
        free = free_on(gpus, engine.gpus) if gpus else {}
        spare = self._setup.launch.reserves.spare
        # The last one of two may leave only the reserve; before it the other's whole share is free too.
        self.verdict = verify(engine, used, free, spare, tokens, self._setup.capped)
        if not self.verdict.problems:
            self._view.say(self.path, f"up: {self._figures(self.verdict)}")
            return
        self._view.say(
            self.path, "\n  ".join(("up, but not as planned:", *self.verdict.problems)), trouble=True
        )
        if self.verdict.short and not self.was_up:
            raise DoesNotFit("less GPU memory is free than the reserve", self.verdict.problems)

    def _used(self, gpus: tuple[GpuMemory, ...] | None) -> dict[int, int]:
        """What it holds, by its processes where the driver tells, else by what has become of free memory."""
        before = self._running.before
        if gpus is None or before is None:
            return {}
        indices = self._running.plan.gpus
        own = used_by(gpus, self.pids(), indices)
        if own is not None:
            return own
        free = free_on(gpus, indices)
        return {index: before[index] - free[index] for index in indices}

    def _figures(self, verdict: Verdict) -> str:
        pool = f"KV pool of {verdict.tokens} tokens" if verdict.tokens else "pool size unknown"
        if not verdict.used:
            return f"{pool}; memory was not measured"
        used, free = max(verdict.used.values()), min(verdict.free.values())
        return f"{pool}, {used / (1 << 30):.1f} GiB per GPU as planned, {free / (1 << 30):.1f} GiB stay free"
