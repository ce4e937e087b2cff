"""`spec-router calibrate`: both engines measured, a calibration and a policy made of it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from random import Random

import httpx
from rich.console import Console

from router.bench.crew import ClientDied
from router.bench.prompts import PromptSet, chosen, prompt_sets
from router.bench.target import BadTarget, Unreachable
from router.calibrate.engines import WrongEngines, check_pair, find_engine
from router.calibrate.measure import Settings
from router.calibrate.measured import Both, Measured, Routed
from router.calibrate.measured_file import MeasuredError, dump_measured, load_measured
from router.calibrate.policy_block import policy_block
from router.calibrate.report import as_json, as_page, as_table
from router.calibrate.result import Result, assess
from router.calibrate.run import Found, Job, measure_engines, measure_router
from router.calibrate.steps import Step, Through, engine_steps, seconds_at_least
from router.calibrate.through import RouterFailed
from router.calibration import dump_calibration
from router.cli.progress import measuring_progress
from router.cli.signals import Signals
from router.cli.targets import BadInput, find_targets
from router.config import ConfigError
from router.core.words import Path, Placement
from router.prompt_file import PromptsError

UNUSABLE, WRONG, UNREACHABLE, INTERRUPTED = 1, 2, 4, 130
CALIBRATION, POLICY, REPORT, MEASURED = "calibration.yaml", "policy.yaml", "report.html", "measured.json"
DRAWS = "calibrate"


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """What the command line said; see its help."""

    config: FilePath
    speculative: str | None
    baseline: str | None
    placement: Placement
    concurrencies: tuple[int, ...]
    repeats: int
    prompts: str
    groups: tuple[str, ...]
    prefix_tokens: int
    question_tokens: int
    settings: Settings
    route: str
    model: str | None
    router: bool
    out: FilePath
    measured: FilePath | None
    as_json: bool
    command: str


def calibrate(options: CalibrateOptions) -> int:
    """Measure, judge, write, print, and return the exit status."""
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if options.measured is not None:
            return _conclude(options, load_measured(options.measured))
        return asyncio.run(_calibrate(options))
    except (BadInput, BadTarget, ConfigError, PromptsError, MeasuredError, WrongEngines) as error:
        print(error, file=sys.stderr)
        return WRONG
    except OSError as error:
        print(f"{options.out}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return WRONG
    except Unreachable as error:
        print(error, file=sys.stderr)
        return UNREACHABLE
    except (ClientDied, RouterFailed) as error:
        print(error, file=sys.stderr)
        return UNUSABLE


async def _calibrate(options: CalibrateOptions) -> int:
    sets = chosen(
        prompt_sets(options.prompts, options.prefix_tokens, options.question_tokens), options.groups
    )
    targets = find_targets(options.config, options.speculative, options.baseline)
    signals = Signals()
    signals.install()
    async with httpx.AsyncClient(trust_env=False) as http:
        engines = {
            each.path: await find_engine(
                http, each.path, each.url, each.api_key, options.route, options.model
            )
            for each in targets
        }
        check_pair(engines[Path.SPECULATIVE], engines[Path.BASELINE])
        job = Job(engines, options.placement, options.settings, options.command)
        steps = engine_steps(options.concurrencies, sets, options.repeats, options.placement)
        later = len(options.concurrencies) * len(sets) if options.router else 0
        _foretell(options, steps, later)
        with measuring_progress(len(steps) + later) as bar:

            def tell(step: Step | Through, found: Found) -> None:
                bar(line(step, found))

            measured = await measure_engines(job, steps, http, time.monotonic, tell, signals.stopping)
            _keep(options, measured)
            if options.router and not signals.stopping.is_set():
                measured = await _through_router(options, job, measured, sets, http, tell, signals.stopping)
                _keep(options, measured)
    if signals.stopping.is_set():
        kept = options.out / MEASURED
        print(f"stopped; what was measured is in {kept}: --from {kept} judges it", file=sys.stderr)
        return INTERRUPTED
    return _conclude(options, measured)


async def _through_router(
    options: CalibrateOptions,
    job: Job,
    measured: Measured,
    sets: Sequence[PromptSet],
    http: httpx.AsyncClient,
    tell: Callable[[Step | Through, Found], object],
    stopping: asyncio.Event,
) -> Measured:
    """The router's own figures, where there is a policy for it."""
    result = _assess(measured)
    policy = policy_block(result, CALIBRATION)
    if policy is None or result.derived is None:
        return measured
    return await measure_router(
        job, measured, sets, result.derived.calibration, policy, http, time.monotonic, tell, stopping
    )


def _assess(measured: Measured) -> Result:
    return assess(measured, Random(DRAWS).random)


def _keep(options: CalibrateOptions, measured: Measured) -> None:
    (options.out / MEASURED).write_bytes(dump_measured(measured))


def _conclude(options: CalibrateOptions, measured: Measured) -> int:
    """Write the files that the measurement allows, and say what it says."""
    result = _assess(measured)
    policy = policy_block(result, str(options.out / CALIBRATION))
    (options.out / REPORT).write_text(as_page(result, policy), encoding="utf-8")
    for name in (CALIBRATION, POLICY):
        (options.out / name).unlink(missing_ok=True)
    if result.derived is not None:
        made = {"at": measured.started, "by": measured.command}
        text = dump_calibration(result.derived.calibration, made)
        (options.out / CALIBRATION).write_text(text, encoding="utf-8")
    if policy is not None:
        (options.out / POLICY).write_text(policy, encoding="utf-8")
    if options.as_json:
        print(json.dumps(as_json(result), indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
        console.print(as_table(result))
        if policy is not None:
            console.print(policy, markup=False)
    written = [name for name in (REPORT, CALIBRATION, POLICY, MEASURED) if (options.out / name).exists()]
    print(f"written to {options.out}: {', '.join(written)}", file=sys.stderr)
    return 0 if result.verdict.usable else UNUSABLE


def _foretell(options: CalibrateOptions, steps: Sequence[Step], later: int) -> None:
    """How long it will take."""
    pace = options.settings.pace
    minutes = (seconds_at_least(steps, pace.seconds, pace.warm_up) + later * pace.seconds) / 60
    print(f"{len(steps) + later} measurements, {minutes:.0f} minutes at the least", file=sys.stderr)


def line(step: Step | Through, found: Found) -> str:
    """A result in one line."""
    said = f"{step.name}: {_figure(found)}"
    problems = () if isinstance(found, float) else found.problems
    return "; ".join([said, *problems])


def _figure(found: Found) -> str:
    if isinstance(found, float):
        return f"{found * 1e6:.1f} µs per token"
    if isinstance(found, Both):
        return f"{found.baseline_rate:,.1f} and {found.speculative_rate:,.1f} tok/s"
    figure = f"{found.tokens_per_second:,.1f} tok/s, success {found.success_rate:.1%}"
    if isinstance(found, Routed):
        return f"{figure}, {found.speculative_share:.0%} by speculation"
    return figure + (f", accept length {found.accept_length:.2f}" if found.accept_length else "")
