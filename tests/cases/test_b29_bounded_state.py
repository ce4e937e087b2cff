"""B-29: state that grows with strangers' input.

Right value: the number of series after the first requests stays constant (unknown values fold into one);
resident memory after the second half is within 10 % (+20 MiB) of that after the first; /metrics stays small
and quick.
"""

from __future__ import annotations

import asyncio
import random
import string
from dataclasses import dataclass
from enum import StrEnum

import pytest

from router.core import words

from .kit import limits
from .kit.client import CHAT, RawClient, good, post, request_bytes
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.engine import good as answer_well
from .kit.metrics import Metrics
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import chat_events, error_body

CONFIG = {"breaker": {"failure_threshold": 1_000_000}, "retry": {"other_path": 0}, "log": {"level": "error"}}
WORKERS = 8
WORDS = frozenset(
    str(word)
    for kind in vars(words).values()
    if isinstance(kind, type) and issubclass(kind, StrEnum)
    for word in kind
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is watched for growth."""

    series: int
    values: frozenset[str]  # of labels, bucket bounds left out
    rss: int

    def assert_no_growth(self, earlier: Reading) -> None:
        """Nothing came in that could go on coming in.

        A combination of known words may turn up late (the first cancelled request); a new word may not.
        """
        assert self.values - earlier.values - WORDS == frozenset()
        assert self.series <= earlier.series * 1.1 + 10
        assert self.rss <= earlier.rss * 1.1 + limits.RSS_SLACK


async def read(router: RouterProcess) -> Reading:
    """One reading; also holds the page to its size and time."""
    metrics: Metrics = await router.metrics()
    assert len(metrics.text) <= limits.SCRAPE_BYTES
    assert metrics.seconds <= limits.SCRAPE_SECONDS
    labels = [label for _, labels in metrics.series for label in labels]
    values = frozenset(value for name, value in labels if name != "le")
    return Reading(len(metrics.series), values, router.rss_bytes())


def word(rng: random.Random, most: int = 20) -> str:
    """A random word."""
    return "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(1, most)))


def strange_request(rng: random.Random) -> bytes:
    """A scanner's request: random in every place that a label could be made of."""
    headers = (
        ("user-agent", word(rng)),
        ("x-request-id", word(rng)),
        ("host", word(rng) + ".example"),
        ("authorization", "Bearer " + word(rng)),
        ("x-router-path", word(rng)),
        (f"x-{word(rng)}", word(rng)),
        ("content-type", "application/json"),
    )
    body = b'{"model":"%s","messages":[],"stream":%s}' % (word(rng).encode(), rng.choice([b"true", b"false"]))
    kind = rng.randrange(5)
    if kind == 0:
        return request_bytes(word(rng, 7).upper(), "/" + word(rng), headers)
    if kind == 1:
        return request_bytes("GET", f"/v1/models/{word(rng)}?{word(rng)}={word(rng)}", headers)
    target = f"{CHAT}?{word(rng)}" if kind == 2 else CHAT
    return request_bytes("POST", target if kind < 4 else "/v1/" + word(rng), headers, body)


async def random_status(conn: EngineConn, request: RawRequest) -> None:
    """Answers with any status and an error body that varies."""
    status = random.Random(bytes(request.body)).choice(
        [200, 201, 299, 400, 404, 418, 422, 451, 499, 500, 503, 599]
    )
    await conn.reply(
        error_body(status, f"m{status}", word(random.Random(bytes(request.body)))), f"{status} Odd"
    )


async def strangers(router: RouterProcess, count: int, seed: int) -> None:
    """Requests with random everything, on a few connections."""

    async def worker(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        client = await RawClient.connect(router.data_port)
        for _ in range(count // WORKERS):
            response = await client.ask(strange_request(rng))
            if "close" in response.head.all("connection"):
                client.fin()
                client = await RawClient.connect(router.data_port)
        client.fin()

    await asyncio.gather(*(worker(number) for number in range(WORKERS)))


async def third_of_each(conn: EngineConn, request: RawRequest) -> None:
    """A stream that ends well or breaks, as the request says; cancelled ones go on until cut."""
    if b"fail" in request.body:
        await conn.head()
        await conn.chunk(chat_events()[0])
        conn.rst()
    elif b"cancel" in request.body:
        await conn.head()
        await conn.chunk(chat_events()[0])
        await conn.pause(30)
    else:
        await answer_well(conn, request)


async def streams(router: RouterProcess, count: int) -> None:
    """Ordinary streams, a third failing and a third cancelled."""

    async def one(kind: str) -> None:
        async with await RawClient.connect(router.data_port) as client:
            await client.request(good(user=kind))
            if kind == "cancel":
                await client.body(10)
                client.rst()
            else:
                await client.response()

    for start in range(0, count, WORKERS):
        kinds = (("well", "fail", "cancel")[i % 3] for i in range(start, start + WORKERS))
        await asyncio.gather(*(one(kind) for kind in kinds))


@pytest.mark.parametrize(
    "half", [480, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
async def test_no_growth(router: RouterProcess, a: FakeEngine, b: FakeEngine, half: int) -> None:
    """B-29: strangers, then ordinary streams; each half adds nothing to what the first left."""
    a.script = b.script = random_status
    await strangers(router, half, 1)
    first = await read(router)
    await strangers(router, half, 2)
    second = await read(router)
    second.assert_no_growth(first)
    a.script = b.script = third_of_each
    await streams(router, half)
    third = await read(router)
    await streams(router, half)
    fourth = await read(router)
    fourth.assert_no_growth(third)
    await assert_quiet(router, a, b)


async def test_strangers_words_are_no_labels(router: RouterProcess, a: FakeEngine) -> None:
    """B-29: no path, model, header or engine text of a stranger stands on the metrics page."""
    headers = (
        ("x-router-path", "strange7"),
        ("user-agent", "strange7"),
        ("content-type", "application/json"),
    )
    body = b'{"model":"strange7","messages":[]}'

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.reply(
            error_body(418, "strange7", "strange7"), "418 strange7", (("x-strange7", "strange7"),)
        )

    a.script = script
    async with await RawClient.connect(router.data_port) as client:
        await client.ask(request_bytes("POST", CHAT, headers, body))
        await client.ask(request_bytes("GET", "/strange7", headers))
        await client.ask(request_bytes("GET", "/v1/models/strange7", headers))
    async with await RawClient.connect(router.data_port) as client:
        await client.ask(request_bytes("STRANGE7", "/v1/models", headers))
    async with await RawClient.connect(router.data_port) as client:
        await client.ask(post(b"strange7"))
    assert "strange7" not in (await router.metrics()).text.lower()
