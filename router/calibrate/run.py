"""A whole calibration: the engines, then the router between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import httpx

from router.bench.crew import Crew
from router.bench.prompts import PromptSet
from router.bench.sweep import unless
from router.calibrate.engines import Engine
from router.calibrate.measure import Measurer, Settings
from router.calibrate.measured import Alone, Both, Measured, Routed
from router.calibrate.steps import One, Prefill, Step, Through, router_steps
from router.calibrate.through import ThroughRouter, router_between
from router.core.identity import key_of
from router.core.words import Path, Placement

Found = Alone | Both | Routed | float
OnStep = Callable[[Step | Through, Found], object]


@dataclass(slots=True)
class Notebook:
    """What has been measured so far."""

    alone: list[Alone] = field(default_factory=list)
    both: list[Both] = field(default_factory=list)
    prefill: dict[Path, float] = field(default_factory=dict)

    def add(self, step: Step, found: Found) -> None:
        """Write a result down."""
        if isinstance(found, Alone):
            self.alone.append(found)
        elif isinstance(found, Both):
            self.both.append(found)
        elif isinstance(found, float) and isinstance(step, Prefill):
            self.prefill[step.path] = found


@dataclass(frozen=True, slots=True)
class Job:
    """What to calibrate.

    Attributes:
        engines: both.
        placement: whether they share their GPUs.
        settings: see `Settings`.
        command: for the record.
    """

    engines: dict[Path, Engine]
    placement: Placement
    settings: Settings
    command: str


async def measure_engines(
    job: Job,
    steps: Sequence[Step],
    http: httpx.AsyncClient,
    clock: Callable[[], float],
    on_step: OnStep,
    stopping: asyncio.Event,
) -> Measured:
    """Carry out the steps; those that were done, if `stopping` is set before the end. Raises ClientDied."""
    started, began, notebook = datetime.now(UTC), clock(), Notebook()
    async with Measurer(job.engines, job.settings, http, clock) as measurer:
        for step in steps:
            found = await unless(stopping, _carry_out(measurer, step))
            if found is None:
                break
            notebook.add(step, found)
            on_step(step, found)
    identities = {path: engine.identity for path, engine in job.engines.items()}
    return Measured(
        key=key_of(identities[Path.SPECULATIVE], identities[Path.BASELINE], job.placement),
        alone=tuple(notebook.alone),
        both=tuple(notebook.both),
        routed=(),
        prefill_seconds_per_token=notebook.prefill,
        max_running_requests={path: each.max_running_requests for path, each in identities.items()},
        started=started.isoformat(timespec="seconds"),
        seconds=clock() - began,
        command=job.command,
        notes=(),
    )


async def _carry_out(measurer: Measurer, step: Step) -> Found:
    if isinstance(step, Prefill):
        return await measurer.prefill(step.path)
    return await (measurer.alone(step) if isinstance(step, One) else measurer.both(step))


async def measure_router(
    job: Job,
    measured: Measured,
    sets: Sequence[PromptSet],
    policy: str,
    calibration: str,
    http: httpx.AsyncClient,
    clock: Callable[[], float],
    on_step: OnStep,
    stopping: asyncio.Event,
) -> Measured:
    """The same with what the router gave at the loads of the sweep.

    A router for each group of prompts, since what one has learned of the accept length is wrong for the next.

    Raises:
        RouterFailed, ClientDied.
    """
    loads = sorted(measured.concurrencies(Path.BASELINE) & measured.concurrencies(Path.SPECULATIVE))
    routed: list[Routed] = []
    for prompts in sets:
        between = router_between(job.engines, job.placement.value, policy, calibration, http)
        async with between as address, Crew(job.settings.processes) as crew:
            through = ThroughRouter(address, crew, job.settings, clock)
            for step in router_steps(loads, prompts):
                found = await unless(stopping, through.measure(step))
                if found is None:
                    return replace(measured, routed=tuple(routed))
                routed.append(found)
                on_step(step, found)
    return replace(measured, routed=tuple(routed))
