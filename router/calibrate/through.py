"""The same loads through the router itself: a router process between the two engines, with the new policy."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory

import httpx
import yaml

from router.bench.cell import measure
from router.bench.crew import Crew
from router.bench.endings import gone
from router.bench.messages import Address
from router.calibrate.engines import Engine
from router.calibrate.measure import Settings
from router.calibrate.measured import Routed
from router.calibrate.steps import Through
from router.core.words import Path

READY_WITHIN = 30.0
LEAVE_WITHIN = 10.0
# A steady load is measured where the router ends up: it takes its time to see that a load is there to stay.
SETTLES_WITHIN = 60.0
LOOK_EVERY = 0.25


class RouterFailed(Exception):
    """The router process did not start."""


@dataclass(frozen=True, slots=True)
class Between:
    """A router between the engines: where requests go, and where it says what it does."""

    address: Address
    status_url: str


class ThroughRouter:
    """Measures loads through a router.

    Args:
        between: the router.
        better: the path that it should come to at a load; None: either will do.
        crew: sends the requests.
        settings: as for the engines.
        http: asks the router about itself.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        between: Between,
        better: Callable[[int], Path | None],
        crew: Crew,
        settings: Settings,
        http: httpx.AsyncClient,
        clock: Callable[[], float],
    ) -> None:
        self._between = between
        self._better = better
        self._crew = crew
        self._settings = settings
        self._http = http
        self._clock = clock

    async def measure(self, step: Through) -> Routed:
        """One load, once the router has come to its path and the other one is empty. Raises ClientDied."""
        settings, plan = self._settings, step.plan
        load = plan.load(self._between.address, settings.answers, settings.seed)
        problems: list[str] = []

        async def settled() -> None:
            problems.extend(await self._settled(plan.concurrency))

        seen = await measure(self._crew, load, settings.pace, self._clock, settled)
        found = seen.figures
        return Routed(
            concurrency=plan.concurrency,
            group=plan.prompts.group,
            tokens_per_second=found.tokens_per_second,
            success_rate=found.success_rate,
            speculative_share=found.speculative_share or 0.0,
            problems=(*seen.problems, *problems),
        )

    async def _settled(self, n: int) -> tuple[str, ...]:
        """Wait for the path that is better at n requests; what is wrong if it does not come."""
        wanted, began = self._better(n), self._clock()
        if wanted is None:
            return ()
        while self._clock() - began < SETTLES_WITHIN:
            await asyncio.sleep(LOOK_EVERY)
            if await self._only(wanted):
                return ()
        return (f"new requests did not go to {wanted} alone within {SETTLES_WITHIN:g} s",)

    async def _only(self, path: Path) -> bool:
        """Whether new requests go to the path and the other one has none left."""
        try:
            pair = (await self._http.get(self._between.status_url)).json()["pairs"][0]
            return bool(pair["active_path"] == path and not pair["paths"][path.other]["active"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError):
            return False


@asynccontextmanager
async def router_between(
    engines: dict[Path, Engine], placement: str, policy: str, calibration: str, http: httpx.AsyncClient
) -> AsyncIterator[Between]:
    """A router process with this policy, on ports of its own; ended on leaving.

    Args:
        policy: the configuration's section, as text; it names `calibration.yaml`.
        calibration: the text of that file.

    Raises:
        RouterFailed: it did not become ready; its log is in the text.
    """
    with TemporaryDirectory(prefix="spec-router-") as name:
        folder = FilePath(name)
        port, admin = _free_port(), _free_port()
        (folder / "calibration.yaml").write_text(calibration, encoding="utf-8")
        config = folder / "config.yaml"
        config.write_text(_config(engines, placement, port, admin) + policy, encoding="utf-8")
        log = folder / "router.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "router", "serve", "-c", str(config)),
                stdout=out,
                stderr=out,
                env=os.environ | {_variable(path): each.api_key or "" for path, each in engines.items()},
                start_new_session=True,
            )
            try:
                await _ready(process, http, f"http://127.0.0.1:{port}/readyz", log)
                one = engines[Path.BASELINE].address
                address = Address("127.0.0.1", port, one.route, one.model)
                yield Between(address, f"http://127.0.0.1:{admin}/admin/status")
            finally:
                await _leave(process)


def _config(engines: dict[Path, Engine], placement: str, port: int, admin: int) -> str:
    pair: dict[str, object] = {"name": "default", "placement": placement}
    for path, engine in engines.items():
        key = {"api_key": f"${{{_variable(path)}}}"} if engine.api_key else {}
        pair[path.value] = {"url": engine.url} | key
    sections = {
        "server": {"host": "127.0.0.1", "port": port},
        "admin": {"host": "127.0.0.1", "port": admin},
        "pairs": [pair],
    }
    return yaml.safe_dump(sections, sort_keys=False)


def _variable(path: Path) -> str:
    return f"SPEC_ROUTER_KEY_OF_{path.value.upper()}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _ready(
    process: asyncio.subprocess.Process, http: httpx.AsyncClient, url: str, log: FilePath
) -> None:
    try:
        async with asyncio.timeout(READY_WITHIN):
            while process.returncode is None:
                try:
                    if (await http.get(url)).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                await asyncio.sleep(0.1)
    except TimeoutError:
        pass
    raise RouterFailed(f"the router between the engines did not become ready:\n{_end_of(log)}")


def _end_of(log: FilePath) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


async def _leave(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    await gone(process, LEAVE_WITHIN)
