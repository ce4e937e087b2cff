"""`spec-router serve`: the router as a process, from its configuration to its last signal."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from functools import partial
from pathlib import Path

import structlog
import uvloop

from router.app import apply_config, build_router
from router.cli.signals import Signals
from router.config import Config, ConfigError, load_config, placeholder_thresholds
from router.lifetime import Router
from router.observe.logs import configure
from router.observe.reloads import ReloadMetrics
from router.reload import Reloader
from router.server.listener import StartError

FAILED_START = 2


def serve(config_path: Path) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status."""
    try:
        config = load_config(config_path, os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return FAILED_START
    configure(config.log.level, config.log.format, sys.stderr)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(config_path, config))
    except StartError as error:
        print(f"{config_path}: {error}", file=sys.stderr)
        return FAILED_START
    return 0


async def run(config_path: Path, config: Config) -> None:
    """Serve until a signal. Raises StartError."""
    signals = Signals()
    signals.install()
    await serve_until(config_path, config, signals)


async def serve_until(config_path: Path, config: Config, signals: Signals) -> None:
    """Serve until told to stop, then drain; `hurry` ends the drain. SIGHUP or a changed file reloads.

    Raises:
        StartError: a port cannot be had, or a file not be written.
    """
    router = build_router(config)
    log = structlog.get_logger("router")
    reloader = Reloader(
        config_path,
        config,
        lambda: load_config(config_path, os.environ),
        partial(put_in_force, router),
        ReloadMetrics(router.registry),
        log,
    )
    signals.reload = router.current.reload = reloader.reload
    await router.start()
    # What stands now stays: it need not be looked through for garbage every few thousand requests.
    gc.collect()
    gc.freeze()
    watching = asyncio.create_task(reloader.watch(), name="reload")
    log.info("listening", data_port=router.data.number, admin_port=router.admin.number)
    if placeholder_thresholds(config):
        log.warning(
            "policy.high and policy.low are placeholders that nobody measured for these engines",
            high=config.policy.high,
            low=config.policy.low,
        )
    await signals.stopping.wait()
    watching.cancel()
    await router.drain(signals.hurry)
    await router.stop()


def put_in_force(router: Router, config: Config) -> None:
    """A reloaded configuration: the log's level is the process's, the rest the router's."""
    configure(config.log.level, config.log.format, sys.stderr)
    apply_config(router, config)
