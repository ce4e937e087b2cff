"""The figures: what load each puts on a proxy and what it reads off."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.dataplane.processes import Cores, Proxy
from bench.dataplane.tools import Tools

BODY_SIZE = 8 << 20
SAMPLE_EVERY = 0.1

Values = dict[str, float]


class BrokenRunError(Exception):
    """Answers were wrong, cut or late: what was measured is no measurement."""


@dataclass(frozen=True, slots=True)
class Load:
    """Work for the load client.

    Attributes:
        connections, requests: at most so many at a time; so many in all.
        chunks, every_us: events of each answer, microseconds between them; 0 chunks: one small JSON object.
        ramp_ms: over which the connections begin.
        body_size: of each request, bytes; 0: a short prompt.
        limit_s: after which the rest counts as unfinished.
    """

    connections: int
    requests: int
    chunks: int = 0
    every_us: int = 0
    ramp_ms: int = 0
    body_size: int = 0
    limit_s: int = 60

    def body(self) -> bytes:
        """The request body; the engine reads its orders from the prompt."""
        prompt = f"bench chunks={self.chunks} every_us={self.every_us} "
        request: dict[str, Any] = {"model": "bench", "messages": [{"role": "user", "content": prompt}]}
        if self.chunks:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        bare = json.dumps(request, separators=(",", ":"))
        filler = "lorem ipsum " * ((self.body_size - len(bare)) // 12)
        return bare.replace(prompt, prompt + filler).encode()


class Running:
    """A load client at work.

    Args:
        load, port: what it does, and to whom.
    """

    def __init__(self, tools: Tools, cores: Cores, load: Load, port: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        body = Path(self._folder.name) / "body"
        body.write_bytes(load.body())
        numbers = (port, load.connections, load.requests, load.ramp_ms, load.limit_s, load.chunks)
        command = ["taskset", "-c", str(cores.load), str(tools.load), *map(str, numbers), str(body)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def result(self) -> dict[str, Any]:
        """What it saw, once it has ended."""
        try:
            output, _ = self._process.communicate()
            result: dict[str, Any] = json.loads(output)
            return result
        finally:
            self._process.kill()
            self._process.wait()
            self._folder.cleanup()


class Measurer:
    """Takes figures of one proxy after the other.

    Args:
        direct: the engine's own port.
        scale: of the number of requests and chunks.
    """

    def __init__(self, tools: Tools, cores: Cores, direct: int, scale: float) -> None:
        self._tools = tools
        self._cores = cores
        self._direct = direct
        self._scale = scale

    def chunks(self, proxy: Proxy) -> Values:
        """CPU of passing streams on: 256 of them, 15 ms between chunks."""
        each = self._times(300)
        cpu, seen = self._cost(proxy, Load(256, 256, each, 15_000, ramp_ms=300))
        return {"cpu_s_per_100k_chunks": cpu / (256 * each) * 1e5, "chunk_delay_p99_ms": seen["delay"]["p99"]}

    def requests(self, proxy: Proxy) -> Values:
        """CPU of small requests that are answered whole, 16 at a time."""
        count = self._times(8000)
        cpu, seen = self._cost(proxy, Load(16, count))
        return {"cpu_ms_per_request": cpu / count * 1e3, "request_p50_ms": seen["whole"]["p50"]}

    def ttft(self, proxy: Proxy) -> Values:
        """Time to the first token beyond the engine's own, 64 streams at a time."""
        load = Load(64, 64 * self._times(8), 20, 15_000, ramp_ms=300)
        direct, through = self._load(load, self._direct), self._load(load, proxy.port)
        return {"added_ttft_p50_ms": through["ttft"]["p50"] - direct["ttft"]["p50"]}

    def open_streams(self, proxy: Proxy) -> Values:
        """1000 open streams, 60 ms between chunks."""
        idle = proxy.rss()
        load = Load(1000, 1000, self._times(150), 60_000, ramp_ms=1000, limit_s=40)
        running = Running(self._tools, self._cores, load, proxy.port)
        with _PeakRss(proxy) as memory:
            seen = running.result()
        return {
            "streams_unfinished": seen["unfinished"] + seen["failed"],
            "rss_idle_mb": idle,
            "rss_peak_mb": memory.peak,
            "open_chunk_delay_p50_ms": seen["delay"]["p50"],
            "open_chunk_delay_p99_ms": seen["delay"]["p99"],
        }

    def bodies(self, proxy: Proxy) -> Values:
        """CPU of 8 MB request bodies, one at a time, then what they do to 16 other streams."""
        count = self._times(40)
        uploads = Load(1, count, body_size=BODY_SIZE)
        cpu, _ = self._cost(proxy, uploads)
        streams = Running(self._tools, self._cores, Load(16, 16, 300, 10_000, ramp_ms=100), proxy.port)
        time.sleep(0.5)
        self._load(Load(1, min(count, 20), body_size=BODY_SIZE), proxy.port)
        gaps = self._whole(streams.result())["gap"]
        return {
            "cpu_ms_per_8mb_body": cpu / count * 1e3,
            "gap_during_bodies_p99_ms": gaps["p99"],
            "gap_during_bodies_max_ms": gaps["max"],
        }

    def single_stream(self, proxy: Proxy) -> Values:
        """Streams one after another as fast as they come: a stall of 40 ms is Nagle against delayed ACKs."""
        seen = self._load(Load(1, 20, 100, 0), proxy.port)
        return {"unpaced_stream_p50_ms": seen["whole"]["p50"], "unpaced_ttft_max_ms": seen["ttft"]["max"]}

    def idle(self, proxy: Proxy) -> Values:
        """CPU of doing nothing: probes of two engines."""
        began, before = time.monotonic(), proxy.cpu()
        time.sleep(3)
        return {"idle_cpu_ms_per_s": (proxy.cpu() - before) / (time.monotonic() - began) * 1e3}

    def _times(self, count: int) -> int:
        return max(1, round(count * self._scale))

    def _cost(self, proxy: Proxy, load: Load) -> tuple[float, dict[str, Any]]:
        before = proxy.cpu()
        seen = self._load(load, proxy.port)
        return proxy.cpu() - before, seen

    def _load(self, load: Load, port: int) -> dict[str, Any]:
        return self._whole(Running(self._tools, self._cores, load, port).result())

    @staticmethod
    def _whole(seen: dict[str, Any]) -> dict[str, Any]:
        if seen["failed"] or seen["unfinished"]:
            raise BrokenRunError(f"{seen['failed']} failed, {seen['unfinished']} unfinished: {seen['why']}")
        return seen


class _PeakRss:
    """The most memory that a proxy held during the block."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak = 0.0

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_EVERY):
            self.peak = max(self.peak, self._proxy.rss())

    def __enter__(self) -> _PeakRss:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
