"""The check after nearly every case: nothing is left behind."""

from __future__ import annotations

import asyncio
import time

from . import limits
from .client import End, ask, good
from .engine import FakeEngine
from .metrics import Metrics, Scraper
from .router import RouterProcess

CRIES = ("Traceback (most recent call last)", "never retrieved", "was never awaited", "Unhandled exception")


def assert_clean_log(log: str) -> None:
    """No traceback and no lost exception."""
    for cry in CRIES:
        assert cry not in log, f"{cry!r} in the log:\n{log[-6000:]}"


async def assert_quiet(
    router: RouterProcess,
    *engines: FakeEngine,
    expect: FakeEngine | None = None,
    scraper: Scraper | None = None,
    log_from: int = 0,
) -> Metrics:
    """Call within moments of the last client's end.

    In-flight is exactly 0 everywhere within 2 s, no scrape was negative, no engine holds an open request,
    a fresh GOOD succeeds on `expect` (default: the engine of the active path), and the log from character
    `log_from` on is clean. Puts the engines' default scripts back for the fresh request.
    """
    metrics = await _wait_empty(router, engines)
    if scraper is not None:
        assert not scraper.negatives, scraper.negatives
        assert scraper.scrapes, "nothing was scraped"
    await _fresh_request(router, engines, expect, metrics)
    assert_clean_log(router.log[log_from:])
    return metrics


async def _wait_empty(router: RouterProcess, engines: tuple[FakeEngine, ...]) -> Metrics:
    deadline = time.monotonic() + limits.QUIET_SECONDS
    while True:
        metrics = await router.metrics()
        counts = {path: metrics.in_flight(path) for path in ("speculative", "baseline", "queue")}
        held = {engine.name: engine.open_requests() for engine in engines}
        assert all(value >= 0 for value in counts.values()), counts
        if not any(counts.values()) and not any(held.values()):
            return metrics
        assert time.monotonic() < deadline, f"in flight {counts}, open at the engines {held}"
        await asyncio.sleep(0.03)


async def _fresh_request(
    router: RouterProcess, engines: tuple[FakeEngine, ...], expect: FakeEngine | None, metrics: Metrics
) -> None:
    for engine in engines:
        engine.use_good_script()
    if expect is None:
        wanted = metrics.active_path() == "speculative"
        expect = next((engine for engine in engines if engine.speculative is wanted), None)
    before = len(expect.requests) if expect is not None else 0
    response = await ask(router.data_port, good())
    assert (response.status, response.end) == (200, End.COMPLETE), (
        f"{response.head.line} {bytes(response.body)!r}"
    )
    assert response.body.endswith(b"data: [DONE]\n\n"), bytes(response.body)
    assert expect is None or len(expect.requests) == before + 1, f"the fresh request missed {expect.name}"
