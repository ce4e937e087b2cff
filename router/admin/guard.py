"""Who may talk to the admin port: a check of the Host header, safe headers, and the token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from router.core.failure import error_body

Endpoint = Callable[[Request], Awaitable[Response]]

_SAFE_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def error_response(status: int, message: str, error_type: str, code: str) -> JSONResponse:
    """An OpenAI-shaped error."""
    return JSONResponse(error_body(message, error_type, code), status)


class SafeHeaders:
    """Adds headers that keep browsers from doing what nobody asked for; an endpoint may set its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely if scope["type"] == "http" else send)


class HostCheck:
    """Answers only requests that name this machine: a page elsewhere cannot point its own name here.

    Args:
        app: what is guarded.
        bind_host: the address listened on. If it is all of them, every IP address is taken: a rebinding
            page cannot use one, for its Host is the name it was loaded from.
        allowed_hosts: further names.
    """

    def __init__(self, app: ASGIApp, bind_host: str, allowed_hosts: Iterable[str]) -> None:
        self._app = app
        self._any_address = _is_wildcard(bind_host)
        named = (host_name(host) or host.lower() for host in (bind_host, *allowed_hosts))
        self._names = frozenset({"localhost", *named})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] == "http" and not self._allows(Headers(scope=scope).getlist("host")):
            refusal = error_response(
                421,
                "This host name is not served here; add it to admin.allowed_hosts if it should be.",
                *("invalid_request_error", "host_not_allowed"),
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allows(self, hosts: list[str]) -> bool:
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None:
            return False
        address = _address(name)
        if address is not None and (address.is_loopback or self._any_address):
            return True
        return name in self._names


def host_name(value: str) -> str | None:
    """The name or address in a Host value: lower case, no port, brackets or final dot; None: malformed."""
    value = value.strip().lower()
    bare = _address(value)
    if bare is not None:
        return str(bare)
    if value.startswith("["):
        inside, bracket, rest = value[1:].partition("]")
        address = _address(inside)
        if not bracket or address is None or address.version != 6 or not _is_port(rest):
            return None
        return str(address)
    name, colon, port = value.partition(":")
    name = name.removesuffix(".")
    return name if name and _is_port(colon + port) else None


def _is_port(rest: str) -> bool:
    return rest == "" or (rest[0] == ":" and rest[1:].isascii() and rest[1:].isdigit() and len(rest) <= 6)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_wildcard(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def require_token(token: str) -> Callable[[Endpoint], Endpoint]:
    """A decorator for endpoints that change something: they need `Authorization: Bearer <token>`.

    Without a token, which the configuration allows on a loopback address only, requests that a page
    of another origin made a browser send are refused.
    """
    wanted = sha256(token.encode()).digest()

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def guarded(request: Request) -> Response:
            if token:
                scheme, _, given = request.headers.get("authorization", "").partition(" ")
                digest = sha256(given.strip().encode()).digest()
                if scheme.lower() != "bearer" or not hmac.compare_digest(digest, wanted):
                    return _unauthorized()
            elif not _same_origin(request):
                return error_response(
                    403, "Requests of other origins are refused.", "invalid_request_error", "foreign_origin"
                )
            return await endpoint(request)

        return guarded

    return decorate


def _same_origin(request: Request) -> bool:
    origin = request.headers.get("origin")
    return origin is None or origin.lower() == f"http://{request.headers.get('host', '').lower()}"


def _unauthorized() -> Response:
    response = error_response(
        401, "Send `Authorization: Bearer <admin token>`.", "authentication_error", "invalid_api_key"
    )
    response.headers["www-authenticate"] = "Bearer"
    return response
