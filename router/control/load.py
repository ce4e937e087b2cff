"""Reading an engine's load."""

from __future__ import annotations

import httpx

from router.control.client import Answer, Endpoint, Unanswered, get
from router.control.parse import Gauges, Loads, read_gauges, read_loads
from router.core.ledger import Clock
from router.core.load import EngineLoad

TIMEOUT = 2.0
# How long an engine without a route (metrics turned off, an old version, a key we lack) is left alone.
ASK_AGAIN = 30.0


class LoadReader:
    """Reads one engine's numbers. What it does not say is None; none of this says anything of its health.

    Args:
        client: for the requests.
        endpoint: the engine.
        clock: monotonic seconds.
    """

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, clock: Clock) -> None:
        self._client = client
        self._endpoint = endpoint
        self._clock = clock
        self._not_before: dict[str, float] = {}

    def forget(self) -> None:
        """The engine went away: another version may come back."""
        self._not_before.clear()

    async def read(self) -> EngineLoad | None:
        """A reading; None if the engine said nothing at all."""
        loads = await self._ask("/v1/loads?include=core")
        gauges = await self._ask("/metrics")
        if loads is None and gauges is None:
            return None
        said = read_loads(loads.body) if loads else Loads()
        counted = read_gauges(gauges.body) if gauges else Gauges()
        return EngineLoad(
            at=self._clock(),
            running=said.running,
            waiting=said.waiting,
            token_usage=said.token_usage,
            gen_throughput=said.gen_throughput,
            generation_tokens=counted.generation_tokens,
            accept_length=counted.accept_length,
            cache_hits=counted.cache_hits,
            prefilled_tokens=counted.prefilled_tokens,
            stamp=said.stamp,
        )

    async def _ask(self, target: str) -> Answer | None:
        if self._clock() < self._not_before.get(target, float("-inf")):
            return None
        try:
            answer = await get(self._client, self._endpoint, target, TIMEOUT)
        except Unanswered:
            return None
        if 400 <= answer.status < 500:
            self._not_before[target] = self._clock() + ASK_AGAIN
        return answer if answer.status == 200 else None
