"""The demo's load alone: users whose number rises and falls, as in `spec-router demo`, until SIGTERM.

Usage: load.py [--profile strong] HOST PORT
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from contextlib import suppress

from router.demo.client import StreamClient
from router.demo.load import Load
from router.demo.plan import make_plan
from router.demo.prompts import Prompts
from router.demo.tally import Tally
from router.sim import load_profile

MODEL = "sim"
TELL_EVERY = 30.0
FINISH_LIMIT = 5.0
"""Seconds; below the ten that docker stop waits."""


async def run(host: str, port: int, profile: str) -> Tally:
    """Load until a signal; open requests may finish."""
    plan, tally = make_plan(load_profile(profile)), Tally()
    load = Load(
        plan.wave.users,
        lambda: StreamClient(host, port, time.monotonic),
        Prompts(0, MODEL, plan.answer_tokens),
        tally,
        time.monotonic,
    )
    stop, hurry, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running = asyncio.create_task(load.run())
    while not stop.is_set() and not running.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), TELL_EVERY)
        print(f"{load.wanted} users, {tally.requests} requests, {tally.failed} failed", flush=True)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await load.finish(FINISH_LIMIT, hurry)
    return tally


def main() -> int:
    """Exit status 1 if a request failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--profile", default="strong")
    options = parser.parse_args()
    return 1 if asyncio.run(run(options.host, options.port, options.profile)).failed else 0


if __name__ == "__main__":
    sys.exit(main())
