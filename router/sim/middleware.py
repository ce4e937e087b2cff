"""What surrounds every route of a simulated engine."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from router.sim.backend import Backend
from router.sim.generation import send_json

# By prefix, as SGLang does it.
_OPEN = ("/health", "/ready", "/metrics")


class BearerAuth:
    """401 without the key. Sits outside the CORS layer, so its answers have no `vary` header."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._expected = f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(_OPEN):
            given = Headers(scope=scope).get("authorization", "")
            if not hmac.compare_digest(given.encode(), self._expected):
                await send_json(send, 401, b'{"error":"Unauthorized"}')
                return
        await self._app(scope, receive, send)


class HttpCounter:
    """Counts requests and responses by route for /metrics; unknown paths share one label."""

    def __init__(self, app: ASGIApp, backend: Backend, paths: frozenset[str]) -> None:
        self._app = app
        self._backend = backend
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        backend = self._backend
        path = scope["path"]
        if path.startswith("/v1/models/"):
            path = "/v1/models/{model:path}"
        key = (path if path in self._paths else "other", scope["method"])

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                backend.http_responses[(*key, message["status"])] += 1
            await send(message)

        backend.http_requests[key] += 1
        backend.http_active[key] += 1
        try:
            await self._app(scope, receive, counted)
        finally:
            backend.http_active[key] -= 1
