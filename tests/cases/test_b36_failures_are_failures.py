"""B-36: failures counted as good results.

Three of ten requests fail, at three concurrencies, in one of the ways in which servers fail with or without
saying so.

Right value: each is a failure, listed by its reason, and the success rate stands in table, JSON and CSV; a
cell with so many of them shows no percentiles; the exit code is 1. Tokens are those of the answers' usage,
never the number of events or what was asked for at most.
"""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from .kit.conn import EngineConn, RawRequest
from .kit.engine import FakeEngine, Script
from .kit.scripts import breaking, replying, silent
from .kit.sse import DONE, JSON_HEADERS, content, error_body, error_event, finish, role, usage

LEVELS = (1, 2, 4)
# Of ten requests in a row, those that fail.
FAIL = (1, 4, 8)
# Events of an answer, the tokens that its usage says, and the most that is asked for: all different.
EVENTS, TOKENS, MOST = 6, 17, 64
GAP = 0.004
TIMEOUT = 0.5
AT_A_TIME = 4
TIMES = [f"{name}_{place}" for name in ("ttft", "tpot", "gap", "latency") for place in ("p50", "p90", "p99")]

ANSWER = [role(), *[content(f" word{number}") for number in range(EVENTS)], finish("length")]
FIVE = ANSWER[:6]


def streaming(*events: bytes) -> Script:
    """These events, and a proper end of the HTTP message."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream(list(events), gap=GAP)

    return script


WAYS: dict[str, tuple[Script, str]] = {
    "an error instead of the first token": (streaming(error_event(503), DONE), "error event 503"),
    "an error after five tokens": (streaming(*FIVE, error_event(400), DONE), "error event 400"),
    "a clean end without the end mark": (streaming(*ANSWER, usage(TOKENS)), "no end mark"),
    "nothing": (streaming(), "empty"),
    "no text": (streaming(role(), finish(), usage(0), DONE), "empty"),
    "no usage": (streaming(*ANSWER, DONE), "no usage"),
    "aborted": (streaming(*FIVE, finish("abort"), usage(5), DONE), "aborted by the server"),
    "503": (replying("503 Service Unavailable"), "status 503"),
    "a cut in the middle": (breaking(FIVE), "engine_stream_broken"),
    "an error as JSON with 200": (replying("200 OK", error_body(503), JSON_HEADERS), "no event stream"),
    "no answer": (silent, "timeout"),
}


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the command left."""

    code: int
    out: str
    err: str


@pytest_asyncio.fixture(loop_scope="session")
async def engine() -> AsyncIterator[FakeEngine]:
    """A server to be measured; no router before it."""
    async with FakeEngine("measured", speculative=False) as fake:
        yield fake
        assert not fake.errors


def failing(*ways: Script) -> Script:
    """Three of ten requests fail, by turns in these ways."""
    good = streaming(*ANSWER, usage(TOKENS), DONE)
    seen = failed = 0

    async def script(conn: EngineConn, request: RawRequest) -> None:
        nonlocal seen, failed
        seen += 1
        if not ways or seen % 10 not in FAIL:
            await good(conn, request)
            return
        failed += 1
        await ways[failed % len(ways)](conn, request)

    return script


async def bench(engine: FakeEngine, *more: object) -> Done:
    """Run `spec-router bench` against the engine."""
    options = {
        "concurrency": ",".join(map(str, LEVELS)),
        "seconds": 0.8,
        "warm-up": 0.1,
        "timeout": TIMEOUT,
        "max-tokens": MOST,
        "processes": 1,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "router", "bench", engine.url, *words, *map(str, more)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


def assert_failed(cell: dict[str, Any], *reasons: str) -> None:
    """A cell of the JSON output in which about three of ten failed for these reasons."""
    failures = cell["failures"]
    assert set(failures) <= set(reasons)
    assert failures
    share = sum(failures.values()) / cell["requests"]
    assert share == pytest.approx(1 - cell["success_rate"])
    assert 0.1 <= share <= 0.6
    assert cell["good"] is False
    assert {name: cell[name] for name in TIMES} == dict.fromkeys(TIMES)
    assert cell["tokens_per_second_each"] is None
    assert cell["output_tokens"] == TOKENS
    succeeded = cell["requests"] - sum(failures.values())
    assert 0 < cell["tokens_per_second"] <= TOKENS * succeeded / cell["seconds"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Done, Path]]:
    """A run for each way, and its CSV file; some at a time, for they wait more than they work."""
    folder, some = tmp_path_factory.mktemp("bench"), asyncio.Semaphore(AT_A_TIME)

    async def run(number: int, script: Script) -> tuple[Done, Path]:
        file = folder / f"{number}.csv"
        async with some, FakeEngine("measured", speculative=False) as fake:
            fake.script = failing(script)
            return await bench(fake, "--json", "--csv", file), file

    done = await asyncio.gather(*(run(number, script) for number, (script, _) in enumerate(WAYS.values())))
    return dict(zip(WAYS, done, strict=True))


@pytest.mark.parametrize("way", WAYS)
async def test_it_is_a_failure_with_a_reason(way: str, runs: dict[str, tuple[Done, Path]]) -> None:
    _, reason = WAYS[way]
    done, file = runs[way]
    assert done.code == 1, done.err
    cells = json.loads(done.out)["cells"]
    assert [cell["concurrency"] for cell in cells] == list(LEVELS)
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    lines = done.err.splitlines()
    for cell, row, line in zip(cells, rows, lines, strict=True):
        assert_failed(cell, reason)
        said = f"{reason}: {cell['failures'][reason]}"
        assert row["failures"] == said
        assert float(row["success_rate"]) == pytest.approx(cell["success_rate"])
        assert row["good"] == "False"
        assert {row[name] for name in TIMES} == {""}
        assert f"of {cell['requests']} failed ({said})" in line


async def test_the_table_tells_all_of_them(engine: FakeEngine) -> None:
    engine.script = failing(*(script for script, _ in WAYS.values()))
    done = await bench(engine, "--seconds", 3)
    assert done.code == 1, done.err
    rows = [line for line in done.out.splitlines() if "in flight, open+copy │" in line]
    assert len(rows) == len(LEVELS)
    for row in rows:
        _, load, success, *figures, _ = (part.strip() for part in row.split("│"))
        assert 40 <= float(success.removesuffix(" %")) <= 90, load
        # One request's rate, TTFT, TPOT and latency are not told.
        assert figures[2:6] == ["–"] * 4
    told = " ".join(done.out.split())
    missing = [reason for _, reason in WAYS.values() if f"{reason}: " not in told]
    assert not missing


async def test_without_failures_all_is_told(engine: FakeEngine) -> None:
    engine.script = failing()
    done = await bench(engine, "--json")
    assert done.code == 0, done.err
    for cell in json.loads(done.out)["cells"]:
        assert cell["success_rate"] == 1.0
        assert cell["good"] is True
        assert cell["output_tokens"] == TOKENS
        assert all(cell[name] > 0 for name in TIMES)
