"""From a URL to where requests go; a message says what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from router.bench.messages import Address
from router.bench.target import BadTarget, Unreachable, base_url, find_address

CHAT = "/v1/chat/completions"
MODELS = {"data": [{"id": "llama"}, {"id": "other"}]}


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize("host", ["127.0.0.1:8000", "engine:30001", "[::1]:8000"])
def test_urls(host: str, tail: str) -> None:
    assert base_url(f"http://{host}{tail}") == f"http://{host}"


@pytest.mark.parametrize(
    "url",
    [
        "https://a:1",
        "http://a",
        "a:8000",
        "http://a:8000/v2",
        "http://a:8000?x=1",
        "http://a:8000#x",
        "http://user@a:8000",
        "http://a:99999",
        "http://[::1:8000",
        "",
    ],
)
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(BadTarget) as caught:
        base_url(url)
    assert str(caught.value).startswith(f"URL {url!r} cannot be used; allowed: http://HOST:PORT")


async def found(
    answer: Callable[[httpx.Request], httpx.Response], model: str | None = None, key: str | None = None
) -> Address:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        return await find_address(http, "http://[::1]:8000/v1", CHAT, model, key)


async def test_the_first_model_that_is_listed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/models"
        assert request.headers["authorization"] == "Bearer secret"
        return httpx.Response(200, json=MODELS)

    assert await found(answer, key="secret") == Address("::1", 8000, CHAT, "llama", "secret")


async def test_a_model_that_is_named_needs_no_list() -> None:
    """Some servers have none; but there must be a server."""
    assert (await found(lambda request: httpx.Response(404), "mine")).model == "mine"

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(Unreachable, match=r"http://\[::1\]:8000: no answer \(ConnectError\)"):
        await found(refuse, "mine")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(401), "/v1/models: status 401"),
        (httpx.Response(200, json={"data": []}), "lists no model; name one with --model"),
        (httpx.Response(200, json=[]), "lists no model"),
        (httpx.Response(200, json={"data": [{"id": 7}]}), "lists no model"),
        (httpx.Response(200, text="<html>"), "lists no model"),
    ],
)
async def test_a_server_without_a_usable_list(answer: httpx.Response, said: str) -> None:
    with pytest.raises(Unreachable, match=said):
        await found(lambda request: answer)


async def test_a_route_that_is_not_measured() -> None:
    async with httpx.AsyncClient() as http:
        with pytest.raises(BadTarget, match="route '/generate' cannot be measured; allowed: /v1/chat"):
            await find_address(http, "http://a:1", "/generate", None, None)
