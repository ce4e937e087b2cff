"""Carrying out the steps at two engines: alone, both at once, prefill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random
from statistics import median
from types import TracebackType

import httpx

from router.bench.call import Client, body
from router.bench.cell import Held, Pace, measure
from router.bench.crew import Crew
from router.bench.endings import ended
from router.bench.figures import Window
from router.bench.messages import Answers, Load, Sample
from router.bench.prompts import synthetic
from router.bench.sweep import Plan
from router.bench.watch import Told, Watch
from router.calibrate.engines import Engine
from router.calibrate.measured import Alone, Both
from router.calibrate.steps import One, Two
from router.core.words import Path

# Two lengths of prompts, in tokens, whose times to the first token differ by what the tokens take.
SHORT, LONG = 32, 2048
# A prompt and its answer must fit into the context with room to spare.
CONTEXT_SHARE = 0.5
PREFILL_VISITS = 5
# A real engine may still count a request that has ended when its successor already waits: on an H200, 69 of
# 64 were seen.
LINGERING = 2
LINGERING_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure.

    Attributes:
        pace: of every cell.
        answers: what is asked for.
        processes: client processes for each engine.
        seed: of everything that is drawn.
    """

    pace: Pace
    answers: Answers
    processes: int
    seed: int


class Measurer:
    """Measures two engines; use it as an async context.

    Args:
        engines: both.
        settings: see `Settings`.
        http: asks the engines about themselves.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        engines: Mapping[Path, Engine],
        settings: Settings,
        http: httpx.AsyncClient,
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._settings = settings
        self._clock = clock
        self._crews = {path: Crew(settings.processes) for path in engines}
        self._watches = {
            path: Watch(http, engine.url, engine.api_key, clock) for path, engine in engines.items()
        }
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Measurer:
        for crew in self._crews.values():
            await self._stack.enter_async_context(crew)
        for watch in self._watches.values():
            self._stack.push_async_callback(ended, asyncio.create_task(watch.run()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def alone(self, step: One) -> Alone:
        """One engine alone. Raises ClientDied."""
        path = step.path
        load = self._load(path, step.plan)
        seen = await measure(self._crews[path], load, self._settings.pace, self._clock)
        window = seen.window
        found, told = seen.figures, self._told(path, window)
        problems = [*seen.problems, *self._strangers(path, step.plan.concurrency, window)]
        problems += self._strangers(path.other, 0, window)
        return Alone(
            path=path,
            group=step.plan.prompts.group,
            concurrency=step.plan.concurrency,
            tokens_per_second=found.tokens_per_second,
            accept_length=told.accept_length if path is Path.SPECULATIVE else None,
            success_rate=found.success_rate,
            failures=found.failures,
            drain_seconds=found.drain_seconds,
            spread=found.error or 0.0,
            ttft_p50=found.ttft.p50 if found.ttft else None,
            tpot_p50=found.tpot.p50 if found.tpot else None,
            prompt_tokens=found.prompt_tokens,
            cached_tokens=found.cached_tokens or 0.0,
            output_tokens=found.output_tokens,
            problems=tuple(problems),
        )

    async def both(self, step: Two) -> Both:
        """Both engines at once, and how long the one that is left takes to end. Raises ClientDied."""
        pace = self._settings.pace
        held = {path: self._begin(path, step.plan(path)) for path in Path}
        try:
            await asyncio.gather(*(each.warm(pace.warm_up) for each in held.values()))
            windows = await asyncio.gather(*(each.window(pace.seconds) for each in held.values()))
            window = Window(max(each.begin for each in windows), min(each.end for each in windows))
            left = held[step.drained]
            stopped = self._clock()
            left.stop()
            samples = {step.drained: await left.samples()}
            held[step.drained.other].stop()
            samples[step.drained.other] = await held[step.drained.other].samples()
        except BaseException:
            for each in held.values():
                each.cut()
            raise
        return self._both(step, held, samples, window, stopped)

    def _both(
        self,
        step: Two,
        held: Mapping[Path, Held],
        samples: Mapping[Path, list[Sample]],
        window: Window,
        stopped: float,
    ) -> Both:
        seen = {path: each.seen(samples[path], window) for path, each in held.items()}
        problems = [
            f"{path}: {text}"
            for path, one in seen.items()
            for text in (
                *one.problems,
                *self._strangers(path, step.plan(path).concurrency, window),
                *(() if one.figures.good else (f"only {one.figures.success_rate:.1%} succeeded",)),
            )
        ]
        last = max((each.ended for each in samples[step.drained]), default=stopped)
        return Both(
            baseline=step.baseline.concurrency,
            speculative=step.speculative.concurrency,
            baseline_rate=seen[Path.BASELINE].figures.tokens_per_second,
            speculative_rate=seen[Path.SPECULATIVE].figures.tokens_per_second,
            accept_length=self._told(Path.SPECULATIVE, window).accept_length,
            drained=step.drained,
            drain_seconds=max(0.0, last - stopped),
            problems=tuple(problems),
        )

    async def prefill(self, path: Path) -> float:
        """Seconds of an uncached prompt token on an idle engine; 0 if it is too short to be seen."""
        engine = self._engines[path]
        context = engine.identity.context_length or 2 * LONG
        longest = min(LONG, int(context * CONTEXT_SHARE))
        client = Client(engine.address, self._settings.answers.timeout, self._clock)
        try:
            visits: dict[int, list[Sample]] = {SHORT: [], longest: []}
            for visit in range(PREFILL_VISITS + 1):
                for tokens, seen in visits.items():
                    rng = Random(f"{self._settings.seed}/prefill/{visit}/{tokens}")
                    seen.append(await client.ask(self._one_token(engine, synthetic(rng, tokens))))
        finally:
            client.close()
        # The first visit may have built kernels.
        short, long = (
            [one for one in seen[1:] if one.problem is None and one.first is not None]
            for seen in visits.values()
        )
        if not short or not long:
            return 0.0
        more = median(one.prompt_tokens for one in long) - median(one.prompt_tokens for one in short)
        return max(0.0, _ttft(long) - _ttft(short)) / more if more > 0 else 0.0

    def _one_token(self, engine: Engine, prompt: str) -> bytes:
        return body(engine.address, self._settings.answers, prompt, 1)

    def _begin(self, path: Path, plan: Plan) -> Held:
        load = self._load(path, plan)
        return Held(self._crews[path].begin(load), load, self._clock)

    def _load(self, path: Path, plan: Plan) -> Load:
        return plan.load(self._engines[path].address, self._settings.answers, self._settings.seed)

    def _told(self, path: Path, window: Window) -> Told:
        return self._watches[path].told(window.begin, window.end)

    def _strangers(self, path: Path, ours: int, window: Window) -> list[str]:
        most = self._told(path, window).most_requests
        if most is None or most <= ours + max(LINGERING if ours else 0, LINGERING_SHARE * ours):
            return []
        return [f"somebody else used the {path} engine ({most} requests, of which {ours} are ours)"]


def _ttft(samples: list[Sample]) -> float:
    return median((one.first or 0.0) - one.started for one in samples)
