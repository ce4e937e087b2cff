"""`python -m tests.soak --minutes 5`: prints what was seen and ends with 1 if anything is left over."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path as File

import uvloop

from router.core.words import Outcome, Path
from tests.cases.kit.router import RouterProcess
from tests.soak.chaos import change_config, kill_engines
from tests.soak.clients import Tally, one_request
from tests.soak.engines import EngineProcess

CLIENTS = 256
WARM_UP = 20.0
RSS_GROWTH = 20 << 20
# Connections to engines expire after 4 s, the probes' after 2 s.
SETTLE = 8.0
CONFIG = {
    "server": {"max_active": 200, "queue_size": 40, "queue_timeout": "5s", "drain_timeout": "5s"},
    "policy": {"high": 60, "low": 10, "dwell": "2s", "smoothing": "1s"},
    "breaker": {"open_for": "1s"},
    "timeouts": {"client_write": "20s"},
    "log": {"level": "warning"},
}


@dataclass(frozen=True, slots=True)
class State:
    """The router from outside, at rest."""

    rss: int
    files: int
    tasks: float


async def state_of(router: RouterProcess) -> State:
    """Look at the router."""
    metrics = await router.metrics()
    return State(router.rss_bytes(), router.open_files(), metrics.sum("tasks"))


async def client(port: int, rng: random.Random, tally: Tally, until: float) -> None:
    """Request after request until it is time to stop."""
    while time.monotonic() < until:
        try:
            await one_request(port, rng, tally)
        except ConnectionError:
            tally.seen["unconnected"] += 1
        await asyncio.sleep(rng.uniform(0.0, 0.2))


async def load(router: RouterProcess, rng: random.Random, tally: Tally, seconds: float) -> None:
    """All clients for `seconds`."""
    until = time.monotonic() + seconds
    await asyncio.gather(
        *(client(router.data_port, random.Random(rng.random()), tally, until) for _ in range(CLIENTS))
    )


async def soak(minutes: float, seed: int, folder: File) -> list[str]:
    """Run it; returns what is wrong."""
    rng = random.Random(seed)
    engines = [EngineProcess(path) for path in Path]
    await asyncio.gather(*(engine.start() for engine in engines))
    router = RouterProcess(folder, engines[0].url, engines[1].url, CONFIG)
    tally = Tally()
    try:
        await router.start()
        await load(router, rng, tally, WARM_UP)
        await asyncio.sleep(SETTLE)
        before = await state_of(router)
        every = max(4.0, minutes * 60 / 15)
        chaos = [
            asyncio.create_task(kill_engines(engines, rng, every)),
            asyncio.create_task(change_config(router, rng, every)),
        ]
        async with router.scraper(every=0.25) as scraper:
            await load(router, rng, tally, minutes * 60)
            for task in chaos:
                task.cancel()
            await asyncio.gather(*chaos, return_exceptions=True)
            await asyncio.sleep(SETTLE)
        negative = scraper.negatives
        after = await state_of(router)
        problems = await judge(router, tally, before, after)
        if negative:
            problems.append(f"a scrape showed a negative count: {negative}")
        return problems
    finally:
        router.kill()
        for engine in engines:
            engine.kill()


async def judge(router: RouterProcess, tally: Tally, before: State, after: State) -> list[str]:
    """What must hold at the end, and does not."""
    metrics = await router.metrics()
    outcomes = Counter(
        {outcome.value: int(metrics.sum("requests_total", outcome=outcome)) for outcome in Outcome}
    )
    print(f"clients   {tally.sent} requests: {dict(tally.seen.most_common())}")
    print(f"router    {sum(outcomes.values())} requests: {dict(outcomes.most_common())}")
    print(
        f"switches  {metrics.sum('switches_total'):.0f}, "
        f"retries {metrics.sum('retries_total'):.0f}, "
        f"reloads {metrics.sum('config_reloads_total'):.0f}"
    )
    print(f"memory    {before.rss >> 20} MiB after warm-up, {after.rss >> 20} MiB at the end")
    print(f"files     {before.files} → {after.files}; tasks {before.tasks:.0f} → {after.tasks:.0f}")
    whole = tally.seen["ok"]
    checks = {
        f"in flight {metrics.sum('in_flight')}": metrics.sum("in_flight") == 0,
        "not every request has one outcome": sum(outcomes.values()) == tally.sent,
        "fewer answers ended well than clients saw": outcomes["ok"] >= whole,
        "an answer looked whole and was not": tally.seen["clean-lie"] == 0,
        "a request never ended": tally.seen["stuck"] == 0,
        "nothing was served": whole > 0,
        "connections are left over": after.files <= before.files + 5,
        "tasks are left over": after.tasks <= before.tasks,
        "memory grew": after.rss - before.rss <= RSS_GROWTH,
        "the log holds a traceback": "Traceback" not in router.log and "never retrieved" not in router.log,
    }
    return [problem for problem, holds in checks.items() if not holds]


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = uvloop.run(soak(arguments.minutes, arguments.seed, File(folder)))
        for problem in problems:
            print(f"WRONG     {problem}")
        print("FAILED" if problems else "all accounts are at zero")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
