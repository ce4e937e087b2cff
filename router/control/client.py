"""The HTTP client of the control side: own connections, small answers, no proxies, no redirects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

MAX_BODY = 1 << 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine is. `api_key` is sent as a bearer token."""

    url: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """An engine's answer; `body` is bytes as sent, at most `MAX_BODY`."""

    status: int
    body: bytes


class Unanswered(Exception):
    """No usable answer. `refused`: because nobody listens."""

    def __init__(self, what: str, *, refused: bool = False) -> None:
        super().__init__(what)
        self.refused = refused


def make_client() -> httpx.AsyncClient:
    """A client for probes and readings of all engines; the caller closes it."""
    # SGLang closes idle connections after 5 s; one that is about to be closed must not be used.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2.0)
    # Engines are reached by plain HTTP, so nobody's certificates are read: they would take 1.5 MB.
    return httpx.AsyncClient(trust_env=False, limits=limits, follow_redirects=False, verify=False)


async def get(client: httpx.AsyncClient, endpoint: Endpoint, target: str, timeout: float) -> Answer:
    """GET `target` (path and query) within `timeout` seconds in all.

    Raises:
        Unanswered: there was no answer in time, or a broken or too long one.
    """
    headers = {"accept-encoding": "identity"}
    if endpoint.api_key:
        headers["authorization"] = f"Bearer {endpoint.api_key}"
    try:
        async with (
            asyncio.timeout(timeout),
            client.stream("GET", endpoint.url + target, headers=headers, timeout=timeout) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BODY:
                    raise Unanswered("too long")
            return Answer(response.status_code, bytes(body))
    except TimeoutError:
        raise Unanswered("timeout") from None
    except httpx.HTTPError as error:
        # The text of the error may hold the address.
        raise Unanswered(type(error).__name__, refused=_refused(error)) from None


def _refused(error: BaseException) -> bool:
    return any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it came from, and the members of groups: one per address that was tried."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for member in error.exceptions:
                yield from _causes(member)
        error = error.__cause__ or error.__context__
