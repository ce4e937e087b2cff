"""A whole calibration: the engines, then the router between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from statistics import fmean

import httpx

from router.bench.crew import Crew
from router.bench.prompts import PromptSet
from router.bench.sweep import unless
from router.calibrate.engines import Engine
from router.calibrate.measure import Measurer, Settings
from router.calibrate.measured import Alone, Both, Measured, Routed
from router.calibrate.steps import One, Prefill, Step, Through, router_steps
from router.calibrate.through import ThroughRouter, router_between
from router.calibration import dump_calibration
from router.core.band import Band, band
from router.core.calibration import Calibration
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
    calibration: Calibration,
    policy: str,
    http: httpx.AsyncClient,
    clock: Callable[[], float],
    on_step: OnStep,
    stopping: asyncio.Event,
) -> Measured:
    """The same with what the router gave at the loads of the sweep.

    A router for each group of prompts, since what one has learned of the accept length is wrong for the next.

    Args:
        policy: the configuration's section, which names `calibration.yaml`.

    Raises:
        RouterFailed, ClientDied.
    """
    loads = sorted(measured.concurrencies(Path.BASELINE) & measured.concurrencies(Path.SPECULATIVE))
    routed: list[Routed] = []
    for prompts in sets:
        marks = band(calibration, _accept_length(measured, prompts.group, calibration))
        files = dump_calibration(calibration)
        router = router_between(job.engines, job.placement.value, policy, files, http)
        async with router as between, Crew(job.settings.processes) as crew:
            through = ThroughRouter(between, partial(_better, marks), crew, job.settings, http, clock)
            for step in router_steps(loads, prompts):
                found = await unless(stopping, through.measure(step))
                if found is None:
                    return replace(measured, routed=tuple(routed))
                routed.append(found)
                on_step(step, found)
    return replace(measured, routed=tuple(routed))


def _accept_length(measured: Measured, group: str, calibration: Calibration) -> float:
    """That of the group's own requests."""
    seen = [one.accept_length for one in measured.alone if one.group == group and one.accept_length]
    return fmean(seen) if seen else calibration.accept_length


def _better(marks: Band, n: int) -> Path | None:
    """Where n requests belong; inside the band either path will do."""
    if marks.high is not None and n >= marks.high:
        return Path.BASELINE
    return Path.SPECULATIVE if marks.low is not None and n <= marks.low else None
