"""`spec-router launch`: start, watch and stop the engines, and be the router in front of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import uvloop
from rich.console import Console

from router.cli.launch_view import LaunchView, LiveLaunchView, PlainLaunchView
from router.cli.plan_view import PlanView
from router.cli.serve import serve_until
from router.cli.signals import Signals, TerminalSignals
from router.config import Config, ConfigError, load_config
from router.config.launch import Launch
from router.core.words import Path, Placement
from router.launch.files import LaunchFileError
from router.launch.gpus import gpus_by_hand
from router.launch.meter import Meter
from router.launch.nvml import GpuReader, Nvml
from router.launch.parts import part_of, paths_of
from router.launch.plan import GpuMemory, Plan, Refusal
from router.launch.ports import Wanted, port_problems
from router.launch.probe import make_client
from router.launch.process import become_subreaper
from router.launch.procfs import listeners
from router.launch.profile_files import AUTO
from router.launch.record import Folder, describe, end_leftovers
from router.launch.report import refusal_json
from router.launch.request import deciding_high, read_request
from router.launch.setup import Keys, Setup
from router.launch.supervisor import Supervisor
from router.observe.logs import configure
from router.server.listener import BindError

WRONG_INPUT = 2
DOES_NOT_FIT = 3
ENGINES_FAILED = 1


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How the command was called. `engine` None starts all engines of the pair."""

    config: FilePath
    engine: Path | None = None
    serve: bool = True
    token_cap: bool = True
    as_json: bool = False


class CannotStart(Exception):
    """Nothing was started; the text says why."""

    def __init__(self, why: str, status: int = WRONG_INPUT) -> None:
        super().__init__(why)
        self.status = status


def launch(options: LaunchOptions) -> int:
    """Run until a signal. Returns the exit status: 0; 1 engines failed; 2 wrong input; 3 it does not fit."""
    try:
        config = load_config(options.config, os.environ)
        section = _section(config, options)
        folder = Folder(_folder(section, options))
        folder.hold()
    except (ConfigError, LaunchFileError, CannotStart) as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    try:
        return _Launch(options, config, section, folder).run()
    except (LaunchFileError, BindError, CannotStart) as error:
        print(error, file=sys.stderr)
        return error.status if isinstance(error, CannotStart) else WRONG_INPUT
    finally:
        folder.let_go()


def _section(config: Config, options: LaunchOptions) -> Launch:
    if config.launch is None:
        raise CannotStart(f"{options.config}: launch: is missing; allowed: the section launch")
    if options.engine is not None and config.pairs[0].engine(options.engine) is None:
        raise CannotStart(f"--engine: the pair has no {options.engine.value} engine")
    if config.launch.gpus == AUTO and os.environ.get("CUDA_VISIBLE_DEVICES"):
        raise CannotStart(
            "CUDA_VISIBLE_DEVICES is set, but the plan numbers GPUs as the driver does; unset it and choose "
            "GPUs by launch.base_gpu"
        )
    if config.pairs[0].speculative is None and config.launch.profile != "baseline":
        return config.launch.model_copy(update={"profile": "baseline"})
    return config.launch


def _folder(section: Launch, options: LaunchOptions) -> FilePath:
    if section.start.folder:
        return FilePath(section.start.folder).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    ports = section.ports.of(options.engine or Path.SPECULATIVE).http
    return FilePath(state).expanduser().absolute() / "spec-router" / f"launch-{ports}"


@dataclass(slots=True)
class _Launch:
    """One call of the command, with its folder held."""

    options: LaunchOptions
    config: Config
    section: Launch
    folder: Folder
    reader: GpuReader | None = None
    view: LaunchView = field(init=False)

    def __post_init__(self) -> None:
        console = Console()
        live = not self.options.as_json and console.is_terminal and not console.is_dumb_terminal
        out = sys.stderr if self.options.as_json else sys.stdout
        configure(self.config.log.level, self.config.log.format, sys.stderr)
        if self.section.gpus == AUTO:
            self.reader = Nvml()
        self.view = LiveLaunchView(console) if live else PlainLaunchView(out)

    def run(self) -> int:
        """See `launch`."""
        try:
            self._leftovers()
            found = self._plan()
            if isinstance(found, Refusal):
                return self._refused(found)
            paths = paths_of(found, self.options.engine)
            self._tables().memory(found)
            problems = port_problems(self._ports(paths))
            if problems:
                raise CannotStart("\n".join(problems))
            if self.reader is None:
                self.view.say(None, "GPU memory is not measured: launch.gpus is given by hand", trouble=True)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(self._main(found, paths))
        finally:
            self.view.close()
            if self.reader is not None:
                self.reader.close()

    def _leftovers(self) -> None:
        left = self.folder.leftovers()
        if not left:
            return
        gpus = self.reader.read() if self.reader else ()
        ports = [port for path in Path for port in _numbers(self.section, path)]
        held = {port: set(listeners(port)) for port in ports}
        self.view.say(
            None, "an earlier launcher was killed and left processes; they are ended:", trouble=True
        )
        for process in left:
            memory = sum(each.used for gpu in gpus for each in gpu.processes if each.pid == process.pid)
            own = [port for port in ports if process.pid in held[port]]
            self.view.say(None, f"  {describe(process, own, memory)}")
        stubborn = end_leftovers(self.folder.leftovers, self.section.start.stop)
        if stubborn:
            pids = ", ".join(str(process.pid) for process in stubborn)
            raise CannotStart(f"processes of an earlier launcher cannot be ended: pid {pids}")

    def _plan(self) -> Plan | Refusal:
        placement = self.config.pairs[0].placement
        high = None if placement is Placement.SINGLE else deciding_high(self.config)
        request = read_request(self.section, placement, high, self._gpus)
        if self.options.engine is not None:
            return part_of(request, self.options.engine)
        return request.plan()

    def _gpus(self) -> tuple[GpuMemory, ...]:
        return self.reader.read() if self.reader else gpus_by_hand(self.section.gpus)

    def _refused(self, refusal: Refusal) -> int:
        self.view.close()
        if self.options.as_json:
            print(json.dumps(refusal_json(refusal), indent=2))
        else:
            self._tables().refusal(refusal)
        for gpu in self._gpus():
            others = ", ".join(
                f"pid {each.pid} ({each.name}) {each.used / (1 << 30):.1f} GiB" for each in gpu.processes
            )
            free, total = gpu.free / (1 << 30), gpu.total / (1 << 30)
            held = f"; held by {others}" if others else ""
            print(f"GPU {gpu.index}: {free:.1f} of {total:.1f} GiB free{held}", file=sys.stderr)
        return DOES_NOT_FIT

    def _tables(self) -> PlanView:
        return PlanView(Console(stderr=self.options.as_json))

    def _ports(self, paths: tuple[Path, ...]) -> list[Wanted]:
        found = []
        for path in paths:
            http, nccl = _numbers(self.section, path)
            found.append(Wanted(f"launch.ports.{path.value}.http", self.section.host, http))
            found.append(Wanted(f"launch.ports.{path.value}.nccl", None, nccl))
        if self._serves:
            found.append(Wanted("server.port", self.config.server.host, self.config.server.port))
            found.append(Wanted("admin.port", self.config.admin.host, self.config.admin.port))
        return found

    @property
    def _serves(self) -> bool:
        return self.options.serve and self.options.engine is None

    async def _main(self, plan: Plan, paths: tuple[Path, ...]) -> int:
        signals = TerminalSignals()
        signals.install()
        clock = asyncio.get_running_loop().time
        setup = Setup(
            plan,
            paths,
            self.section,
            _keys(self.config),
            self.folder,
            self.options.token_cap,
            dict(os.environ),
            clock,
        )
        meter = Meter(self.reader, clock, asyncio.sleep) if self.reader else None
        exclusive = plan.placement is Placement.SHARED
        async with make_client() as client:
            supervisor = Supervisor(setup, meter, client, self.view, exclusive, become_subreaper())
            try:
                return await self._supervise(supervisor, signals, setup)
            finally:
                await supervisor.stop(signals.hurry)

    async def _supervise(self, supervisor: Supervisor, signals: Signals, setup: Setup) -> int:
        # Engines are watched until the router has drained; a launch that fails stops the router.
        watched = asyncio.Event()
        watching = asyncio.create_task(supervisor.run(watched), name="supervisor")
        watching.add_done_callback(lambda _: signals.stopping.set())
        try:
            await _first(supervisor.complete, signals.stopping)
            if supervisor.complete.is_set() and not signals.stopping.is_set():
                self._up(supervisor)
                if self._serves:
                    await serve_until(self.options.config, self.config, signals)
            await signals.stopping.wait()
        finally:
            watched.set()
            ended = await watching
        if ended is None:
            return 0
        self.view.say(ended.path, f"everything is stopped: {ended.why}", trouble=True)
        return DOES_NOT_FIT if supervisor.refused else ENGINES_FAILED

    def _up(self, supervisor: Supervisor) -> None:
        self.view.close()
        if self.options.as_json:
            print(json.dumps(up_json(supervisor), indent=2), flush=True)
        self.view.say(None, "all engines are up" + ("; the router starts" if self._serves else ""))


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _numbers(section: Launch, path: Path) -> tuple[int, int]:
    ports = section.ports.of(path)
    return ports.http, ports.nccl


def _keys(config: Config) -> Mapping[Path, Keys]:
    found = {}
    for path in Path:
        engine = config.pairs[0].engine(path)
        if engine:
            keys = (engine.api_key, engine.admin_api_key)
            found[path] = Keys(*(key.get_secret_value() if key else None for key in keys))
    return found


def up_json(supervisor: Supervisor) -> dict[str, Any]:
    """The object that `--json` prints when all engines are up; sizes are bytes per GPU."""
    return {
        "engines": [
            {
                "path": path.value,
                "url": engine.target.url,
                "pid": engine.process.pid if engine.process else None,
                "log": str(engine.log),
                "mem_fraction_static": engine.started.fraction if engine.started else None,
                "max_total_tokens": engine.started.tokens if engine.started else None,
                "pool_tokens": engine.verdict.tokens if engine.verdict else None,
                "used": _by_gpu(engine.verdict.used if engine.verdict else {}),
                "free": _by_gpu(engine.verdict.free if engine.verdict else {}),
                "problems": list(engine.verdict.problems) if engine.verdict else [],
            }
            for path, engine in supervisor.engines.items()
        ]
    }


def _by_gpu(sizes: Mapping[int, int]) -> dict[str, int]:
    return {str(index): size for index, size in sizes.items()}
