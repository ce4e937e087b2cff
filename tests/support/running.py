"""The router in this process, as a test starts it and finds it empty again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from router.app import build_router
from router.config import Config
from router.core.ledger import Ledger
from router.core.words import Path
from router.lifetime import Router
from tests.cases.kit.client import RawResponse, ask, request_bytes
from tests.cases.kit.metrics import Metrics, Scraper, scrape
from tests.cases.kit.router import merged
from tests.cases.kit.waiting import until

Tree = dict[str, Any]

# Watermarks that no test reaches by accident; probes that notice a change within a fraction of a second.
DEFAULTS: Tree = {
    "server": {"host": "127.0.0.1", "port": 0, "drain_timeout": "2s"},
    "admin": {"host": "127.0.0.1", "port": 0},
    "policy": {"high": 400, "low": 200, "dwell": "0s", "smoothing": "0s"},
    "breaker": {"failure_threshold": 5, "success_threshold": 2, "open_for": "300ms"},
    "health": {
        "ready": {"interval": "100ms", "timeout": "1s"},
        "deep": {"interval": "5s", "timeout": "3s"},
        "failure_threshold": 3,
        "success_threshold": 2,
    },
}
# From the last client's end to a router that holds nothing.
QUIET_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Running:
    """A started router, seen from inside and from outside."""

    router: Router

    @property
    def data(self) -> int:
        """The data port."""
        return self.router.data.number

    @property
    def admin(self) -> int:
        """The admin port."""
        return self.router.admin.number

    @property
    def url(self) -> str:
        """What an OpenAI client is pointed at."""
        return f"http://127.0.0.1:{self.data}/v1"

    @property
    def ledger(self) -> Ledger:
        """The account of what is in flight."""
        return self.router.services.pair.ledger

    async def ask(self, data: bytes, within: float = 10.0) -> RawResponse:
        """One request on a connection of its own."""
        return await ask(self.data, data, within)

    async def get(self, target: str, within: float = 10.0) -> RawResponse:
        """GET on the data port."""
        return await ask(self.data, request_bytes("GET", target), within)

    async def metrics(self) -> Metrics:
        """One scrape."""
        return await scrape(self.admin)

    def scraper(self, every: float = 0.05) -> Scraper:
        """Scrapes in the background while its `async with` block runs."""
        return Scraper(self.admin, every)

    async def status(self) -> Tree:
        """The pair's part of `GET /admin/status`."""
        target = request_bytes("GET", "/admin/status", host=f"127.0.0.1:{self.admin}")
        pair: Tree = (await ask(self.admin, target)).json()["pairs"][0]
        return pair

    async def quiet(self) -> None:
        """Wait until the router holds nothing."""
        held = self._held
        with contextlib.suppress(AssertionError):
            await until(lambda: not any(held().values()), QUIET_SECONDS)
        assert not any(held().values()), held()
        ledger = self.ledger
        assert ledger.opened == sum(ledger.closed.values()), (ledger.opened, ledger.closed)

    def _held(self) -> dict[str, int]:
        services = self.router.services
        return {
            "leases": len(self.ledger.open_leases()),
            "queue": services.door.waiting,
            "body memory": services.budget.held,
            **{f"connections to {path}": link.pool.in_use for path, link in services.engines.items()},
        }


def router_config(speculative: str | None, baseline: str | None, **sections: Any) -> Config:
    """A configuration for engines at those URLs, `sections` laid over the defaults of the tests."""
    urls = {"speculative": speculative, "baseline": baseline}
    pair: Tree = {path: {"url": url} for path, url in urls.items() if url is not None}
    if len(pair) == 1:
        pair["placement"] = "single"
    return Config.model_validate(merged({**DEFAULTS, "pairs": [pair]}, sections))


@contextlib.asynccontextmanager
async def running(config: Config, *, ready: bool = True) -> AsyncIterator[Running]:
    """Start a router; with `ready` wait until it serves. At the end it must hold nothing."""
    router = build_router(config)
    await router.start()
    try:
        if ready:
            await until(router.services.pair.serving, 5.0, "a ready router")
        own = Running(router)
        yield own
        await own.quiet()
    finally:
        await router.stop()


async def paths_up(own: Running, *paths: Path) -> None:
    """Wait until exactly these paths count as up."""
    pair, clock = own.router.services.pair, own.router.services.clock

    def up() -> set[Path]:
        return {path for path, engine in pair.engines.items() if engine.up(clock())}

    await until(lambda: up() == set(paths), 5.0, f"exactly {[str(path) for path in paths]} up")


async def gather_all(*steps: Any) -> list[Any]:
    """Run together; the first error is raised only when all have ended, so that none is left running."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
