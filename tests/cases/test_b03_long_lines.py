"""B-03: one very long line kills the stream.

Right value: lines of any length pass unchanged, small events around them are not held up, and a body
without any newline flows through in bounded memory. A relay needs no event boundaries at all; if it looks
inside events it must give up looking, not hold the line.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from .kit import limits
from .kit.client import RawClient, chat_body, good, post
from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine
from .kit.exchange import exchange, lockstep
from .kit.quiet import assert_quiet
from .kit.router import RouterProcess
from .kit.sse import DONE, content, split_every

SIZES = [65_535, 65_536, 65_537, 131_073, 524_289, 1_048_577, 8_388_608]
BLOCK = b"x" * 65_536


def long_event(size: int) -> bytes:
    """One `data:` line of exactly `size` bytes, and its blank line."""
    frame = len(content("").rstrip(b"\n"))
    return content("y" * (size - frame))


@pytest.mark.parametrize("position", ["first", "between"])
@pytest.mark.parametrize("size", SIZES)
async def test_long_line(router: RouterProcess, a: FakeEngine, size: int, position: str) -> None:
    """B-03, first run: identical, and the small events after it come at once."""
    before = [] if position == "first" else [content("a"), content("b")]
    after = [content("c"), content("d"), DONE]
    line = long_event(size)
    assert len(line.rstrip(b"\n")) == size

    seen = await lockstep(router, a, [[event] for event in (*before, line, *after)])
    assert bytes(seen.response.body) == b"".join((*before, line, *after))
    small = [delay for i, delay in enumerate(seen.delays()) if i != len(before)]
    assert max(small) <= limits.EVENT_DELAY
    assert seen.delays()[len(before)] <= limits.EVENT_DELAY + size / (50 * limits.MIB)


async def test_long_line_in_small_segments(router: RouterProcess, a: FakeEngine) -> None:
    """B-03 with a 2 MiB line in 4 KiB pieces: no work that grows with the square of the length."""
    line = long_event(2 * limits.MIB)

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(content("a"))
        for piece in split_every(line, 4096):
            await conn.chunk(piece)
        await conn.end()

    before = router.cpu_seconds()
    seen = await exchange(router, a, script)
    assert bytes(seen.response.body) == content("a") + line
    assert router.cpu_seconds() - before < 1.0


@contextlib.asynccontextmanager
async def peak_memory(router: RouterProcess) -> AsyncIterator[list[int]]:
    """Resident bytes of the router, one reading per 20 ms."""
    seen = [router.rss_bytes()]

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.02)
            seen.append(router.rss_bytes())

    task = asyncio.create_task(watch())
    yield seen
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def pour(router: RouterProcess, a: FakeEngine, start: bytes, total: int, request: bytes) -> int:
    """An answer of `total` bytes without a newline after `start`; returns the router's growth in bytes."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.head()
        await conn.chunk(start)
        for _ in range(total // len(BLOCK)):
            await conn.chunk(BLOCK)
        await conn.end()

    a.script = script
    async with peak_memory(router) as seen, await RawClient.connect(router.data_port) as client:
        await client.request(request)
        response = await client.response(within=100)
    assert len(response.body) == len(start) + total
    assert bytes(response.body[: len(start)]) == start
    assert response.body.count(b"x", len(start)) == total
    return max(seen) - seen[0]


@pytest.mark.parametrize("mib", [64, pytest.param(256, marks=pytest.mark.slow)], ids=["64MiB", "256MiB"])
@pytest.mark.parametrize("start", [b"data: ", content("a") + b"data: "], ids=["first_event", "later_event"])
async def test_no_newline(router: RouterProcess, a: FakeEngine, start: bytes, mib: int) -> None:
    """B-03, second run: the bytes flow through and memory grows by less than 32 MiB."""
    assert await pour(router, a, start, mib * limits.MIB, good()) < limits.UNBOUNDED_LINE_GROWTH


async def test_huge_whole_answer(router: RouterProcess, a: FakeEngine) -> None:
    """Kin of B-03: a 64 MiB answer to a request that is not streamed is relayed, not collected."""
    grown = await pour(router, a, b"{", 64 * limits.MIB, post(chat_body(stream=False)))
    assert grown < limits.UNBOUNDED_LINE_GROWTH


async def test_quiet(router: RouterProcess, a: FakeEngine, b: FakeEngine) -> None:
    """Nothing is left behind."""
    await assert_quiet(router, a, b)
