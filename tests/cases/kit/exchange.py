"""One scripted request through the router, seen from both ends."""

from __future__ import annotations

from dataclasses import dataclass

from .client import End, RawClient, RawResponse, ask, good
from .conn import EngineConn, RawRequest
from .engine import FakeEngine, Script
from .router import RouterProcess
from .sse import chunked


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


async def lockstep(
    router: RouterProcess,
    engine: FakeEngine,
    events: list[list[bytes]],
    tail: bytes = b"",
    within: float = 2.0,
) -> Exchange:
    """A streamed answer of which each event is sent only once the client has the whole one before.

    So an event that is held back for the next one fails the test, however slow the host is. An event is a
    list of segments, each sent as a chunk of its own; `tail` follows unwaited for.
    """
    client = await RawClient.connect(router.data_port)

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        sent = 0
        for number, segments in enumerate(events):
            for segment in segments:
                await conn.chunk(segment)
                await conn.pause(0.002)
            sent += sum(map(len, segments))
            await client.wait(
                lambda total=sent: bool(client.responses) and len(client.responses[-1].body) >= total,  # type: ignore[misc]
                within,
                f"event {number} at the client",
            )
        await conn.send(chunked(tail))

    engine.script = script
    async with client:
        response = await client.ask(good(), within=20)
    assert response.end is End.COMPLETE, f"{response.end} after {len(response.body)} bytes: {engine.errors}"
    return Exchange(response, engine.requests[-1])
