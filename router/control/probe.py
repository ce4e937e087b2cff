"""Asking an engine whether it is well."""

from __future__ import annotations

import httpx

from router.control.client import Endpoint, Unanswered, get
from router.core.health import Probe

# `/health` sleeps for a second before it looks, so a shorter limit would always fail.
HEALTH_TIMEOUT_MIN = 3.0


class Prober:
    """Health probes of one engine.

    `/ping` is never asked: it calls a paused engine well, whose requests just hang.

    Args:
        client: for the requests.
        endpoint: the engine.
    """

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint) -> None:
        self._client = client
        self._endpoint = endpoint
        self._has_ready = True

    async def ready(self, timeout: float) -> Probe:
        """Ask the engine's own word on whether it takes requests, within `timeout` seconds.

        Old engines have no `/ready`; they are asked `/health` until they went away, for an upgraded one
        may come back.
        """
        if self._has_ready:
            found = await self._ask("/ready", timeout, unwell=Probe.NOT_READY)
            if found is not None:
                return found
            self._has_ready = False
        return await self.deep(max(timeout, HEALTH_TIMEOUT_MIN))

    async def deep(self, timeout: float) -> Probe:
        """Make the scheduler work: generate a token, within `timeout` seconds."""
        return await self._ask("/health", timeout, unwell=Probe.FAILED) or Probe.FAILED

    async def _ask(self, target: str, timeout: float, unwell: Probe) -> Probe | None:
        """What `target` says; None if there is no such thing."""
        try:
            answer = await get(self._client, self._endpoint, target, timeout)
        except Unanswered as error:
            if error.refused:
                self._has_ready = True
            return Probe.REFUSED if error.refused else Probe.FAILED
        if answer.status == 404:
            return None
        if answer.status == 503:
            return unwell
        return Probe.OK if answer.status == 200 else Probe.FAILED
