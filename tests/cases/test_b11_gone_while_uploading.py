"""B-11: the client goes away while it is still sending its body.

Right value: an ordinary disconnect. No engine is asked (or its request is aborted and not held against it),
no 5xx is counted, and the log has a short line at most.
"""

from __future__ import annotations

import asyncio

import pytest

from .conftest import RouterFactory
from .kit.client import CHAT, RawClient, chat_body, request_bytes
from .kit.conn import Fields
from .kit.engine import FakeEngine
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess

JSON: Fields = (("content-type", "application/json"),)
SIZED = request_bytes("POST", CHAT, (*JSON, ("content-length", "1000000")), b"") + b"{" + b" " * 999
CHUNKED = (
    request_bytes("POST", CHAT, (*JSON, ("transfer-encoding", "chunked")))
    + b"3e8\r\n{"
    + b" " * 999
    + b"\r\n"
)
STARTS = {
    "sized": SIZED,
    "chunked": CHUNKED,
    "inside_a_chunk": CHUNKED[:-100],
    "one_byte_short": request_bytes("POST", CHAT, JSON, chat_body(stream=True))[:-1],
    "no_body_yet": request_bytes("POST", CHAT, (*JSON, ("content-length", "1000000")), b""),
    "expect_continue": request_bytes(
        "POST", CHAT, (*JSON, ("expect", "100-continue"), ("content-length", "1000000")), b""
    ),
    "head_unfinished": SIZED[:60],
    "body_too_large": request_bytes("POST", CHAT, (*JSON, ("content-length", "900000000")), b"") + b"{",
}


@pytest.mark.parametrize("way", ["rst", "fin", "half_close"])
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
async def test_gone(router: RouterProcess, a: FakeEngine, b: FakeEngine, start: bytes, way: str) -> None:
    """B-11: some of the request, then RST or FIN."""
    log_from = len(router.log)
    before = await router.metrics()
    client = await RawClient.connect(router.data_port)
    await client.request(start)
    await asyncio.sleep(0.1)
    if way == "half_close":
        client.half_close()
        await asyncio.sleep(0.2)
        client.fin()
    else:
        client.rst() if way == "rst" else client.fin()
    await asyncio.sleep(0.1)
    assert a.requests == b.requests == []
    lines = [line for line in router.log[log_from:].splitlines() if line.strip()]
    assert len(lines) <= 1, lines
    metrics = await assert_quiet(router, a, b, log_from=log_from)
    for name in ("failed", "ok"):
        assert metrics.sum("requests_total", outcome=name) == before.sum("requests_total", outcome=name)
    assert metrics.sum("breaker_state") == 0
    assert metrics.sum("in_flight") == 0


async def test_counted_as_cancelled(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """B-11: the metrics call it cancelled, on no path."""
    before = (await router.metrics()).sum("requests_total", outcome="cancelled", path="none")
    for _ in range(10):
        client = await RawClient.connect(router.data_port)
        await client.request(SIZED)
        await asyncio.sleep(0.05)
        client.rst()
    metrics = await assert_quiet(router, a, b)
    assert metrics.sum("requests_total", outcome="cancelled", path="none") == before + 10
    assert metrics.sum("requests_total", outcome="failed") == 0


async def test_memory_is_given_back(router_factory: RouterFactory, a: FakeEngine, b: FakeEngine) -> None:
    """Kin of B-11: broken uploads give their share of the body memory back."""
    router = await router_factory(
        {"server": {"max_body": "1MiB", "body_memory": "2MiB", "queue_timeout": "2s"}}
    )
    for _ in range(30):
        client = await RawClient.connect(router.data_port)
        await client.request(SIZED)
        await asyncio.sleep(0.01)
        client.rst()
    await assert_quiet(router, a, b)


async def test_gone_while_waiting_for_memory(
    router_factory: RouterFactory, a: FakeEngine, b: FakeEngine
) -> None:
    """Kin of B-11: gone while the router makes the upload wait."""
    router = await router_factory(
        {"server": {"max_body": "1MiB", "body_memory": "2MiB", "queue_timeout": "30s"}}
    )
    body = b"{" + b" " * 900_000
    holders: list[RawClient] = []
    waiters: list[RawClient] = []
    for group in (holders, waiters):
        for _ in range(2):
            client = await RawClient.connect(router.data_port)
            await client.request(SIZED + body)
            group.append(client)
        await asyncio.sleep(0.2)
    for client in waiters:
        client.rst()
    await asyncio.sleep(0.2)
    for client in holders:
        client.rst()
    await assert_quiet(router, a, b)
