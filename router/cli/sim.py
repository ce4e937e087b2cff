"""`spec-router sim`: only the simulated engines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import dataclass

import uvloop

from router.server.listener import BindError, bind
from router.sim import ProfileError, SimParams, SimulatedPair, run_sim

FAILED_START = 2


@dataclass(frozen=True, slots=True)
class Where:
    """Where the engines listen."""

    host: str
    speculative_port: int
    baseline_port: int


def sim(profile: str, where: Where, seed: int) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status."""
    try:
        params = SimParams(profile=profile, seed=seed)
        params.resolved_profile()
        _check_ports(where)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_signal(params, where))
    except (BindError, ProfileError, OSError) as error:
        print(error, file=sys.stderr)
        return FAILED_START
    return 0


def _check_ports(where: Where) -> None:
    """Raises BindError, which says which port it is, before either engine listens."""
    with (
        contextlib.closing(bind(where.host, where.speculative_port, "speculative")),
        contextlib.closing(bind(where.host, where.baseline_port, "baseline")),
    ):
        pass


async def _until_signal(params: SimParams, where: Where) -> None:
    serving = asyncio.create_task(
        run_sim(
            params,
            host=where.host,
            speculative_port=where.speculative_port,
            baseline_port=where.baseline_port,
            on_ready=_announce,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _announce(pair: SimulatedPair) -> None:
    print(f"speculative  {pair.speculative_url}\nbaseline     {pair.baseline_url}", flush=True)
