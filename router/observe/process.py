"""The router's own process: memory, files, CPU, and tasks, so that a leak shows before it hurts."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

from router.observe.metrics import PREFIX


def watch_process(registry: CollectorRegistry, loop: asyncio.AbstractEventLoop) -> None:
    """Register `process_*` (memory, files, CPU) and the number of tasks on `loop`."""
    ProcessCollector(registry=registry)
    tasks = Gauge(f"{PREFIX}_tasks", "Tasks on the event loop; idle: a few per engine.", registry=registry)
    tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
