"""The data port as one plain ASGI callable: find the route on the raw path, then serve it."""

from __future__ import annotations

import logging

from router.core.failure import Failure, Kind
from router.core.headers import Headers, header, sane_request_id
from router.core.routes import Handling, Route, find_route
from router.core.words import Rejection
from router.proxy.body import HeldBody
from router.proxy.client import Client, Receive, Scope, Send
from router.proxy.exchange import Exchange
from router.proxy.settings import Services
from router.proxy.side import answer_held, answer_side

# Room for what clients send along with a request that has nothing to say.
NO_BODY = 64 * 1024

_log = logging.getLogger("router.proxy")


class DataPort:
    """Serves every request of the data port.

    Args:
        services: what requests work with.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.exchanges: set[Exchange] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] != "http":
            return
        services = self._services
        headers: Headers = scope["headers"]
        request_id = sane_request_id(header(headers, b"x-request-id")) or services.new_id()
        client = Client(scope, receive, request_id)
        try:
            route = self._find(scope)
            if route.handling is Handling.PROXY:
                await self._proxy(client, route, scope)
            else:
                await self._answer(client, route)
        except Failure as failure:
            await self._refuse(client, failure, refusal_headers(failure, scope))
        except Exception:
            _log.exception("a request failed inside the router")
            if not client.committed:
                await client.send_failure(Failure(Kind.INTERNAL), [])

    def end_all(self, failure: Failure) -> None:
        """End every request that is still being served."""
        for exchange in tuple(self.exchanges):
            exchange.end(failure)

    def _find(self, scope: Scope) -> Route:
        route = find_route(scope["raw_path"])
        if route is None:
            raise Failure(Kind.ROUTE)
        if scope["method"] != route.method:
            raise Failure(Kind.METHOD)
        return route

    async def _proxy(self, client: Client, route: Route, scope: Scope) -> None:
        if self._services.draining:
            raise Failure(Kind.DRAIN)
        query: bytes = scope["query_string"]
        exchange = Exchange(self._services, client, route, route.target + (b"?" + query if query else b""))
        self.exchanges.add(exchange)
        try:
            await exchange.run()
        finally:
            self.exchanges.discard(exchange)

    async def _answer(self, client: Client, route: Route) -> None:
        services = self._services
        if route.handling is Handling.SIDE:
            if not services.settings.keys.accept(client.headers):
                raise Failure(Kind.AUTH)
            await answer_side(services, client, route.target)
        elif route.handling is Handling.HELD:
            if not services.settings.keys.accept(client.headers):
                raise Failure(Kind.AUTH)
            await self._drop_body(client)
            await answer_held(services, client, route)
        elif route.handling is Handling.LIVE:
            await client.send_json(200, {"status": "ok"})
        else:
            ready = services.pair.serving() and not services.draining
            answer: dict[str, object] = {"status": "ready" if ready else "not ready"}
            # Only which ones: the sentences, which name models and limits, are for the operator's port.
            if faults := [problem.fault.value for problem in services.pair.problems]:
                answer["problems"] = faults
            await client.send_json(200 if ready else 503, answer)

    async def _drop_body(self, client: Client) -> None:
        """Take in the body of a request whose engine reads none."""
        settings = self._services.settings
        with HeldBody(self._services.budget) as body:
            limit = min(settings.max_body, NO_BODY)
            await body.read(client, limit=limit, stall=settings.client_body, wait=settings.queue_timeout)

    async def _refuse(self, client: Client, failure: Failure, headers: Headers) -> None:
        self._services.observer.on_rejected(failure.row.rejection or Rejection.ROUTE)
        await client.send_failure(failure, headers)


def refusal_headers(failure: Failure, scope: Scope) -> Headers:
    """Headers that a refusal at the door needs beside its body."""
    if failure.kind is Kind.METHOD:
        route = find_route(scope["raw_path"])
        return [(b"allow", route.method.encode())] if route else []
    if failure.kind is Kind.DRAIN:
        return [(b"retry-after", b"1"), (b"connection", b"close")]
    return [(b"retry-after", b"1")] if failure.row.retry_after else []
