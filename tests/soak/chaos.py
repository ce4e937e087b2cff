"""What goes wrong during a soak: engines are killed and come back, the configuration changes under load."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Sequence

import yaml

from tests.cases.kit.router import RouterProcess
from tests.soak.engines import EngineProcess


async def kill_engines(engines: Sequence[EngineProcess], rng: random.Random, every: float) -> None:
    """Again and again: SIGKILL one engine, leave it dead for a while, start it on its port."""
    while True:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * every)
        engine = rng.choice(engines)
        engine.kill()
        try:
            await asyncio.sleep(rng.uniform(1.0, 4.0))
        finally:
            await engine.start()


async def change_config(router: RouterProcess, rng: random.Random, every: float) -> None:
    """Again and again: other thresholds, a broken file, the good one again; by signal and by file change."""
    good = router.config
    while True:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * every)
        policy = {**good["policy"], "high": rng.randint(20, 120), "low": rng.randint(2, 15)}
        for text in (yaml.safe_dump({**good, "policy": policy}), "policy: {high: no\n", yaml.safe_dump(good)):
            router.config_file.write_text(text)
            if rng.random() < 0.5:
                router.send_signal(signal.SIGHUP)
            await asyncio.sleep(1.5)
