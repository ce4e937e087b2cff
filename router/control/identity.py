"""Asking an engine what it is: once for each of its lives, and now and then in case one was missed."""

from __future__ import annotations

import httpx

from router.control.client import Endpoint, Unanswered, get
from router.control.parse import read_identity
from router.core.identity import KeyRefused, Told
from router.core.ledger import Clock

TIMEOUT = 5.0
# The answer is tens of kilobytes. An engine takes longer than this to start, so a restart that no probe
# saw, and a configuration changed by it, is noticed within as long.
ASK_AGAIN = 60.0
ROUTES = ("/server_info", "/get_server_info")


class IdentityReader:
    """Reads one engine's identity. The answer holds both API keys in clear; parsing drops them.

    Args:
        client: for the requests.
        endpoint: the engine.
        clock: monotonic seconds.
    """

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, clock: Clock) -> None:
        self._client = client
        self._endpoint = endpoint
        self._clock = clock
        self._due = clock()

    def forget(self) -> None:
        """The engine went away: another one may come back."""
        self._due = self._clock()

    async def read_if_due(self) -> Told | None:
        """What the engine says it is; None if it is not due to be asked, or says nothing."""
        if self._clock() < self._due:
            return None
        for route in ROUTES:
            try:
                answer = await get(self._client, self._endpoint, route, TIMEOUT)
            except Unanswered:
                return None
            if answer.status != 404:
                break
        if 200 <= answer.status < 500:
            self._due = self._clock() + ASK_AGAIN
        if answer.status in (401, 403):
            return KeyRefused(shown=self._endpoint.api_key is not None)
        return read_identity(answer.body) if answer.status == 200 else None
