"""Starts engines, watches them, restarts what dies, and ends everything: the shell around `sequence`."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import httpx

from router.core.words import Path
from router.launch.engine import Engine
from router.launch.engine_log import Stage
from router.launch.failures import ending, explain, known_failures
from router.launch.files import LaunchFileError
from router.launch.memory import STILL, used_on
from router.launch.meter import Meter
from router.launch.process import Reaper, children, orphans, send
from router.launch.procfs import Process
from router.launch.record import KILL_LIMIT, Entry
from router.launch.sequence import Do, Ended, Phase, Rules, Sequence, Step
from router.launch.setup import DoesNotFit, Setup, StepFailed, View

TICK = 0.2
SCAN_STARTING, SCAN_UP = 1.0, 10.0
"""Seconds between two looks at all processes."""

TAIL = 15
"""Lines of its log that are told when an engine dies."""


class Supervisor:
    """All engines of one launch.

    Args:
        meter: None where memory cannot be measured.
        subreaper: whether orphans become children of this process.
    """

    def __init__(
        self,
        setup: Setup,
        meter: Meter | None,
        client: httpx.AsyncClient,
        view: View,
        exclusive: bool,
        subreaper: bool,
    ) -> None:
        start = setup.launch.start
        again = start.restart
        rules = Rules(start.stall, again.delay, again.longest_delay, again.attempts, again.stable)
        self.sequence = Sequence(setup.paths, exclusive, rules)
        self.engines = {path: Engine(setup, path, meter, client, view) for path in setup.paths}
        self.complete = asyncio.Event()
        self.refused = False
        self._setup = setup
        self._view = view
        self._reaper = Reaper() if subreaper else None
        self._before = children()
        self._meter = meter
        self._level: dict[Path, int] = {}
        self._known = known_failures()
        self._jobs: dict[Path, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._next_scan = 0.0

    async def run(self, stop: asyncio.Event) -> Ended | None:
        """Until `stop` is set (None), or until there is nothing left to try (why)."""
        while not stop.is_set() and self.sequence.ended is None:
            self._raise_errors()
            self._look()
            await self._scan()
            for order in self.sequence.orders(self._now()):
                self._jobs[order.path] = asyncio.create_task(self._take(order), name="launch step")
            if self.sequence.complete:
                self.complete.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK)
            self._wake.clear()
        return self.sequence.ended

    def _now(self) -> float:
        return self._setup.clock()

    def _raise_errors(self) -> None:
        for task in (*self._jobs.values(), *self._endings):
            if task.done() and not task.cancelled():
                task.result()

    def _look(self) -> None:
        for engine in self.engines.values():
            process = engine.process
            if process is None:
                continue
            self._read_log(engine)
            code = process.poll()
            if code is not None and not engine.ending:
                self._ended(engine, code)
        for path in self.sequence.stalled(self._now()):
            engine = self.engines[path]
            if not engine.ending:
                self._fail(engine, self._stalled(engine))

    def _read_log(self, engine: Engine) -> None:
        if engine.process is None:
            return
        before = engine.reader.progress
        if engine.reader.feed(engine.process.new_log()):
            self.sequence.progressed(engine.path, self._now())
        if engine.reader.progress != before and self.sequence.phase(engine.path) is Phase.STARTING:
            self._view.progress(engine.path, engine.reader.progress)

    async def _take(self, order: Do) -> None:
        engine = self.engines[order.path]
        other = next((each for path, each in self.engines.items() if path is not order.path), None)
        try:
            await engine.take(order.step, other)
        except (StepFailed, LaunchFileError) as failed:
            self.refused = self.refused or isinstance(failed, DoesNotFit)
            self._fail(engine, str(failed))
            return
        if order.step is Step.VERIFY:
            engine.was_up = True
        self.sequence.done(order.path, order.step, self._now())
        self._next_scan = 0.0  # a step may have made processes, which must be in the note
        self._wake.set()

    def _ended(self, engine: Engine, code: int) -> None:
        """Its main process has ended by itself."""
        step = self.sequence.step(engine.path)
        when = f" while it started ({engine.reader.progress.stage.value})" if step else ""
        why = f"ended{when}: {ending(code)}"
        lines = engine.reader.tail(TAIL)
        reason = explain(self._known, engine.reader.tail(200))
        known = [f"reason: {reason}"] if reason else []
        self._fail(engine, "\n  ".join((why, *known, f"last lines of {engine.log}:", *lines)))

    def _fail(self, engine: Engine, why: str) -> None:
        """Tell it now; make sure that nothing of it is left; then decide what follows."""
        if engine.ending:
            return
        engine.ending = True
        self._view.say(engine.path, why, trouble=True)
        job = self._jobs.pop(engine.path, None)
        if job is not None and job is not asyncio.current_task():
            job.cancel()
        task = asyncio.create_task(self._after_end(engine, why), name="launch end")
        self._endings.add(task)

    async def _after_end(self, engine: Engine, why: str) -> None:
        self._endings = {task for task in self._endings if not task.done()}
        await asyncio.to_thread(self._adopt)
        await self._kill(engine)
        engine.ending = False
        self.sequence.lost(engine.path, self._now(), why.splitlines()[0])
        phase = self.sequence.phase(engine.path)
        if phase is Phase.WAITING:
            wait = self.sequence.due(engine.path) - self._now()
            self._view.say(
                engine.path, f"restart in {max(0.0, wait):.0f} s, at a fraction of what is free then"
            )
        elif self.sequence.ended is None:
            self._view.say(
                engine.path,
                f"given up after {self.sequence.rules.attempts} restarts in a row; the other goes on alone",
                trouble=True,
            )

    def _stalled(self, engine: Engine) -> str:
        step = self.sequence.step(engine.path)
        done = engine.reader.progress
        where = done.stage.value + (f" {done.says}" if done.says else "")
        if done.stage is Stage.BEGINNING:
            where = "nothing of the model was loaded"
        said = f", last answer: {engine.answered}" if engine.answered else ""
        return "\n  ".join(
            (
                f"alive, not ready: no progress for {self.sequence.rules.stall:.0f} s (launch.start.stall) "
                f"in step {step.value if step else '?'}, {where}{said}; last lines of {engine.log}:",
                *engine.reader.tail(TAIL),
            )
        )

    async def _scan(self) -> None:
        """Remember every process of ours, for it may lose the signs by which it is known."""
        if self._now() < self._next_scan:
            return
        starting = any(self.sequence.phase(path) is Phase.STARTING for path in self.engines)
        self._next_scan = self._now() + (SCAN_STARTING if starting else SCAN_UP)
        await asyncio.to_thread(self._remember)
        if starting and self._meter is not None:
            await self._weigh(self._meter)

    async def _weigh(self, meter: Meter) -> None:
        """Growing memory is progress too: a model of one file may load for long without a word."""
        gpus = await meter.read()
        for path in self.engines:
            used = sum(used_on(gpus, self._setup.plan.engine(path).gpus).values())
            if abs(used - self._level.get(path, 0)) >= STILL:
                self._level[path] = used
                self.sequence.progressed(path, self._now())

    def _remember(self) -> None:
        self._adopt()
        entries = [
            Entry(
                path.value,
                engine.process.pid,
                engine.ports,
                tuple(member.key for member in engine.process.members()),
            )
            for path, engine in self.engines.items()
            if engine.process is not None
        ]
        self._setup.folder.write(entries)
        if self._reaper:
            self._reaper.reap(self._main_pids())

    def _adopt(self) -> None:
        """Orphans without any sign belong to the engine that is starting, or to the only one there is."""
        running = [engine for engine in self.engines.values() if engine.process is not None]
        starting = [each for each in running if self.sequence.phase(each.path) is Phase.STARTING]
        parents = starting or running
        if self._reaper is None or len(parents) != 1 or parents[0].process is None:
            return
        claimed = {pid for engine in running for pid in engine.pids()}
        for orphan in orphans([*self._main_pids(), *claimed], self._before):
            parents[0].process.adopt(orphan)

    def _main_pids(self) -> list[int]:
        return [engine.process.pid for engine in self.engines.values() if engine.process is not None]

    async def _kill(self, engine: Engine) -> None:
        """SIGKILL everything of one engine until nothing is left."""
        process = engine.process
        if process is None:
            return
        if not await self._until_gone(partial(process.members, thorough=True), signal.SIGKILL, KILL_LIMIT):
            left = ", ".join(str(member.pid) for member in process.members())
            self._view.say(engine.path, f"still there after SIGKILL: pid {left}", trouble=True)
        process.poll()
        self._read_log(engine)
        process.close()
        engine.process = None

    async def _until_gone(
        self, find: Callable[[], list[Process]], number: signal.Signals, limit: float
    ) -> bool:
        deadline = time.monotonic() + limit
        while True:
            left = await asyncio.to_thread(find)
            self._poll()
            if not left:
                return True
            if time.monotonic() >= deadline:
                return False
            send(left, number)
            await asyncio.sleep(0.05)

    def _poll(self) -> None:
        """Collect main processes that have ended."""
        for engine in self.engines.values():
            if engine.process is not None:
                engine.process.poll()

    async def stop(self, hurry: asyncio.Event) -> None:
        """SIGTERM to the engines, and after `launch.start.stop` or `hurry` SIGKILL; nothing is left then."""
        for job in (*self._jobs.values(), *self._endings):
            job.cancel()
        await asyncio.gather(*self._jobs.values(), *self._endings, return_exceptions=True)
        running = [engine for engine in self.engines.values() if engine.process is not None]
        for engine in running:
            assert engine.process is not None
            await asyncio.to_thread(engine.process.members)
            engine.process.ask_to_end()
        deadline = time.monotonic() + self._setup.launch.start.stop
        while time.monotonic() < deadline and not hurry.is_set():
            if all(engine.process is None or engine.process.poll() is not None for engine in running):
                break
            await asyncio.sleep(0.05)
        await asyncio.gather(*(self._end(engine) for engine in running))
        if self._reaper:
            await self._until_gone(
                partial(orphans, self._main_pids(), self._before), signal.SIGKILL, KILL_LIMIT
            )
            self._reaper.reap([])
            self._reaper.reap([])

    async def _end(self, engine: Engine) -> None:
        process = engine.process
        assert process is not None
        code = process.poll()
        await self._kill(engine)
        self._view.say(
            engine.path, "stopped" if code is not None else "stopped by SIGKILL: it did not end in time"
        )
