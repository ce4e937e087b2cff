"""A thousand open streams through a router process: all finish, and it stays small."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.cases.kit.client import chat_body, post
from tests.cases.kit.router import RouterProcess
from tests.support.running import gather_all

STREAMS = 1000
TOKENS = 20
STEP = 0.25  # seconds between the events of a stream
MIB = 1 << 20
RSS_LIMIT = 100 * MIB
DONE = b"data: [DONE]\n\n"


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Ports of two simulated engines in another process."""
    command = [sys.executable, "-m", "tests.support.engines_process", str(STEP)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            speculative, baseline = map(int, process.stdout.readline().split())
            yield speculative, baseline
        finally:
            process.kill()


class Listener(asyncio.Protocol):
    """One client: asks once, and notes when the first event came and whether the last did."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tail = b""
        self._asked = 0.0
        self.events = 0
        self.first: float | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self.transport = cast("asyncio.Transport", transport)
        self._asked = time.monotonic()
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.first is None:
            self.first = time.monotonic() - self._asked
            assert data.startswith(b"HTTP/1.1 200 "), data[:200]
        self.events += data.count(b"\ndata: ") + data.startswith(b"data: ")
        self._tail = (self._tail + data)[-64:]
        if self._tail.endswith(b"\r\n0\r\n\r\n") and not self.ended.done():
            self.ended.set_result(DONE in self._tail)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if not self.ended.done():
            self.ended.set_result(False)


async def listen(port: int, count: int, spread: float, tokens: int = TOKENS) -> list[Listener]:
    """So many streams at once, their starts spread over that many seconds."""
    request = post(chat_body(stream=True, max_tokens=tokens, ignore_eos=True))

    async def one(delay: float) -> Listener:
        await asyncio.sleep(delay)
        loop = asyncio.get_running_loop()
        _, listener = await loop.create_connection(lambda: Listener(request), "127.0.0.1", port)
        await asyncio.wait_for(listener.ended, 30)
        return listener

    return await gather_all(*(one(spread * number / count) for number in range(count)))


async def added_first_event(direct: int, through: int) -> float:
    """Milliseconds that the router adds to the first event: medians of streams that are alone, in turns."""
    seen: dict[int, list[float]] = {direct: [], through: []}
    for _ in range(30):
        for port, times in seen.items():
            (listener,) = await listen(port, 1, spread=0.0, tokens=2)
            times.append(listener.first or 0.0)
    return 1000 * (statistics.median(seen[through]) - statistics.median(seen[direct]))


def peak_rss(pid: int) -> int:
    """Most memory the process ever had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


async def test_a_thousand_streams(
    ports: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speculative, baseline = ports
    router = RouterProcess(
        tmp_path,
        f"http://127.0.0.1:{speculative}",
        f"http://127.0.0.1:{baseline}",
        {
            "server": {"max_active": STREAMS, "queue_size": 0},
            "policy": {"high": 8, "low": 3},
            "health": {"ready": {"interval": "1s"}, "deep": {"interval": "30s"}},
            "log": {"level": "warning"},
        },
    )
    try:
        await router.start()
        idle, cpu = router.rss_bytes(), router.cpu_seconds()
        async with router.scraper(0.5) as scraper:
            listeners = await listen(router.data_port, STREAMS, spread=2.0)
        cpu = router.cpu_seconds() - cpu
        peak = peak_rss(router.pid)
        metrics = await router.metrics()
        added = await added_first_event(speculative, router.data_port)
        log = router.log
        assert await router.terminate() == 0
    finally:
        router.kill()
    with capsys.disabled():
        print(
            f"\n{STREAMS} streams, {STREAMS * TOKENS} events: router RSS {idle / MIB:.1f} MB idle, "
            f"{peak / MIB:.1f} MB peak; {cpu:.2f} CPU s; {added:+.2f} ms to the first event of a stream alone"
        )
    assert all(listener.ended.result() for listener in listeners)
    assert {listener.events for listener in listeners} == {listeners[0].events}
    assert scraper.peak["speculative"] + scraper.peak["baseline"] >= STREAMS
    assert not scraper.negatives
    assert metrics.sum("requests_total", outcome="ok") == metrics.sum("requests_total") == STREAMS
    assert sum(metrics.in_flight(path) for path in ("speculative", "baseline", "queue")) == 0
    assert peak <= RSS_LIMIT
    assert "Traceback" not in log, log[-3000:]
