"""`spec-router demo`: the main job with nothing else installed."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import uvloop
from rich.console import Console

from router.demo.plain import PlainView
from router.demo.plan import make_plan
from router.demo.run import Options, Stop, View, check_ports, run_demo
from router.demo.screen import LiveView
from router.demo.summary import Summary
from router.observe.logs import configure
from router.server.listener import BindError
from router.sim import ProfileError, load_profile

FAILED_START = 2


def demo(
    profile: str,
    host: str,
    port: int,
    admin_port: int,
    seconds: float | None,
    seed: int,
    as_json: bool,
) -> int:
    """Run the demonstration; returns the exit status: 0, 1 if a request failed or stayed open, or 2."""
    if port == admin_port != 0:
        print(f"--port and --admin-port are both {port}; they must differ", file=sys.stderr)
        return FAILED_START
    try:
        options = Options(make_plan(load_profile(profile)), host, port, admin_port, seconds, seed)
        check_ports(options)
        view = choose_view(as_json)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            summary = runner.run(_until_signal(options, view))
    except (BindError, ProfileError) as error:
        print(error, file=sys.stderr)
        return FAILED_START
    if as_json:
        print(json.dumps(summary.as_json(), indent=2))
    return 0 if summary.ok else 1


def choose_view(as_json: bool) -> View:
    """Live on a terminal, lines elsewhere; beside JSON, lines on stderr."""
    console = Console()
    live = not as_json and console.is_terminal and not console.is_dumb_terminal
    # What the router logs would tear the live screen; there only errors may.
    configure("error" if live else "warning", "text", sys.stderr)
    return LiveView(console) if live else PlainView(sys.stderr if as_json else sys.stdout)


async def _until_signal(options: Options, view: View) -> Summary:
    stop = Stop(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        (stop.hurry if stop.load.is_set() else stop.load).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return await run_demo(options, view, stop)
