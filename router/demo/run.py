"""A demonstration from its first socket to its last."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from router.app import build_router
from router.config import Config
from router.demo.client import StreamClient
from router.demo.frame import TICK, Frame, Frames, LoadNow
from router.demo.intro import Addresses, intro
from router.demo.load import Load
from router.demo.plan import Plan
from router.demo.prompts import Prompts
from router.demo.summary import Summary, summarize
from router.demo.tally import Tally
from router.lifetime import Router
from router.server.listener import bind
from router.sim import SimParams, SimulatedPair

MODEL = "sim"
ADMIN_HOST = "127.0.0.1"
READY_LIMIT = 10.0
# How long open requests may take once the load has ended, and requests of others after them.
FINISH_LIMIT = 15.0
DRAIN_LIMIT = 5.0


class View(Protocol):
    """Where a demonstration is shown."""

    def begin(self, lines: Iterable[str]) -> None:
        """What is said before the first number."""
        ...

    def show(self, frame: Frame) -> None:
        """One moment."""
        ...

    def end(self, summary: Summary) -> None:
        """The end."""
        ...

    def close(self) -> None:
        """Whatever happened: give back what was taken. May be called more than once."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for. `seconds` None: until stopped."""

    plan: Plan
    host: str
    port: int
    admin_port: int
    seconds: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Requests from outside: end the load; and, after that, do not wait for what is open."""

    load: asyncio.Event
    hurry: asyncio.Event


def check_ports(options: Options) -> None:
    """Raises BindError where a port is taken, before anything has been started."""
    with (
        contextlib.closing(bind(options.host, options.port, "data")),
        contextlib.closing(bind(ADMIN_HOST, options.admin_port, "admin")),
    ):
        pass


async def run_demo(options: Options, view: View, stop: Stop) -> Summary:
    """Run until `options.seconds` have passed or a stop is asked for, and clean up.

    Raises:
        BindError: a port was taken since `check_ports`.
    """
    plan = options.plan
    async with SimulatedPair(SimParams(profile=plan.profile, seed=options.seed, model=MODEL)) as engines:
        router = build_router(demo_config(options, engines.speculative_url, engines.baseline_url))
        await router.start()
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                return await _show(options, router, http, view, stop)
        finally:
            view.close()
            await router.stop()


def demo_config(options: Options, speculative_url: str, baseline_url: str) -> Config:
    """The router's configuration."""
    plan = options.plan
    return Config.model_validate(
        {
            "server": {"host": options.host, "port": options.port, "drain_timeout": DRAIN_LIMIT},
            "admin": {"host": ADMIN_HOST, "port": options.admin_port},
            "pairs": [{"speculative": {"url": speculative_url}, "baseline": {"url": baseline_url}}],
            "policy": {
                "high": plan.high,
                "low": plan.low,
                "dwell": plan.dwell,
                "smoothing": plan.smoothing,
            },
        }
    )


async def _show(options: Options, router: Router, http: httpx.AsyncClient, view: View, stop: Stop) -> Summary:
    plan, tally, loop = options.plan, Tally(), asyncio.get_running_loop()
    at = addresses(options, router)

    async def status() -> dict[str, Any]:
        answer: dict[str, Any] = (await http.get(f"{at.admin}/admin/status")).raise_for_status().json()
        return answer

    await _until_ready(status, stop.load)
    view.begin(intro(plan, at, MODEL))
    began, frames = loop.time(), Frames(time.time())
    prompts = Prompts(options.seed, MODEL, plan.answer_tokens)
    load = Load(
        plan.wave.users,
        # The loop's own clock stands still during a turn and counts whole milliseconds.
        lambda: StreamClient(_reachable(options.host), router.data.number, time.monotonic),
        prompts,
        tally,
        time.monotonic,
    )

    async def show(until: Callable[[], bool], stopping: bool) -> None:
        while not until():
            now = LoadNow(loop.time() - began, load.wanted, stopping, tally.requests, tally.failed)
            view.show(frames.take(await status(), now))
            await asyncio.sleep(TICK)

    running = asyncio.create_task(load.run(), name="load")
    ends = began + options.seconds if options.seconds is not None else float("inf")
    await show(lambda: stop.load.is_set() or loop.time() >= ends or running.done(), stopping=False)
    seconds = loop.time() - began
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    finishing = asyncio.create_task(load.finish(FINISH_LIMIT, stop.hurry), name="finish")
    await show(finishing.done, stopping=True)
    await finishing
    await router.drain(stop.hurry)
    pair = router.services.pair
    summary = summarize(
        plan,
        tally,
        pair.switches,
        pair.ledger.closed,
        began=began,
        seconds=seconds,
        mixed_seconds=pair.ledger.mixed_seconds(),
        open_leases=pair.ledger.n,
    )
    view.end(summary)
    return summary


def addresses(options: Options, router: Router) -> Addresses:
    """Where the router can be reached from this machine."""
    return Addresses(
        _base_url(_reachable(options.host), router.data.number),
        _base_url(ADMIN_HOST, router.admin.number),
    )


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _base_url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _until_ready(status: Callable[[], Any], stop: asyncio.Event) -> None:
    """Wait until both engines are up, for a load that begins earlier would see failovers."""
    deadline = time.monotonic() + READY_LIMIT
    while not stop.is_set() and time.monotonic() < deadline:
        paths = (await status())["pairs"][0]["paths"].values()
        if all(path["up"] for path in paths):
            return
        await asyncio.sleep(0.05)
