"""One scripted request through the router, seen from both ends."""

from __future__ import annotations

from dataclasses import dataclass

from .client import End, RawResponse, ask, good
from .conn import RawRequest
from .engine import FakeEngine, Script
from .router import RouterProcess


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the client got and what the engine got."""

    response: RawResponse
    request: RawRequest

    def delays(self) -> list[float]:
        """Seconds from each of the engine's marked sends to its arrival at the client."""
        return self.response.delays(self.request.marks)


async def exchange(
    router: RouterProcess, engine: FakeEngine, script: Script, data: bytes | None = None, within: float = 20.0
) -> Exchange:
    """Ask once (GOOD by default), with the engine answering by the script; the answer must be whole."""
    engine.script = script
    before = len(engine.requests)
    response = await ask(router.data_port, good() if data is None else data, within)
    assert response.end is End.COMPLETE, (
        f"{response.end} after {len(response.body)} bytes: {response.problem}"
    )
    assert len(engine.requests) == before + 1, (
        f"{engine.name} was asked {len(engine.requests) - before} times"
    )
    return Exchange(response, engine.requests[-1])
