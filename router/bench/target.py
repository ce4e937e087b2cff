"""The server to measure: from a URL to an address, its model asked of it."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from router.bench.call import ROUTES
from router.bench.messages import Address
from router.config.fields import URL_FORM
from router.core.headers import bearer

TIMEOUT = 10.0


class BadTarget(Exception):
    """The URL or what was said of it cannot be used."""


class Unreachable(Exception):
    """The server gives no usable answer."""


def base_url(url: str) -> str:
    """The server's URL without the `/v1` that OpenAI clients are given. Raises BadTarget."""
    try:
        parts = urlsplit(url.removesuffix("/").removesuffix("/v1"))
        usable = parts.scheme == "http" and parts.hostname and parts.port and parts.username is None
    except ValueError:
        usable = False
    if not usable or parts.path or parts.query or parts.fragment:
        raise BadTarget(f"URL {url!r} cannot be used; allowed: {URL_FORM}, or the same with /v1")
    return f"http://{parts.netloc}"


async def find_address(
    http: httpx.AsyncClient, url: str, route: str, model: str | None, api_key: str | None
) -> Address:
    """Where to send requests.

    Args:
        url: see `base_url`.
        route: one of `ROUTES`.
        model: its name; None: the first that the server lists.

    Raises:
        BadTarget: the URL or the route cannot be used.
        Unreachable: the server does not answer, or lists no model.
    """
    base = base_url(url)
    if route not in ROUTES:
        raise BadTarget(f"route {route!r} cannot be measured; allowed: {', '.join(ROUTES)}")
    parts = urlsplit(base)
    assert parts.hostname is not None
    assert parts.port is not None
    try:
        answer = await http.get(base + "/v1/models", headers=bearer(api_key), timeout=TIMEOUT)
    except httpx.HTTPError as error:
        raise Unreachable(f"{base}: no answer ({type(error).__name__})") from None
    return Address(parts.hostname, parts.port, route, model or _first_model(answer, base), api_key)


def _first_model(answer: httpx.Response, base: str) -> str:
    if answer.status_code != 200:
        raise Unreachable(f"{base}/v1/models: status {answer.status_code}")
    try:
        name = answer.json()["data"][0]["id"]
    except (ValueError, LookupError, TypeError):
        raise Unreachable(f"{base}/v1/models lists no model; name one with --model") from None
    if not isinstance(name, str):
        raise Unreachable(f"{base}/v1/models lists no model; name one with --model")
    return name
