"""`spec-router bench` as an operator runs it: a process, before simulated engines in real time."""

from __future__ import annotations

import asyncio
import csv
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path as FilePath

import pytest

from router.core.words import Path
from router.sim import load_profile
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.router import RouterProcess
from tests.cases.kit.scripts import ticking
from tests.cases.kit.sse import DONE, content, finish, role, usage
from tests.cases.kit.waiting import until
from tests.soak.engines import EngineProcess
from tests.support.bench_process import BenchProcess, Done, alive, bench
from tests.support.leftovers import Errors

Engines = Mapping[Path, EngineProcess]


@pytest.fixture
async def strong(errors: Errors) -> AsyncIterator[Engines]:
    """Both engines of the profile `strong`, each a process with a GPU of its own."""
    started = {path: EngineProcess(path) for path in Path}
    try:
        await asyncio.gather(*(engine.start() for engine in started.values()))
        yield started
    finally:
        for engine in started.values():
            engine.kill()


def curve(path: Path, concurrency: int) -> float:
    """Tokens per second of the profile while nothing is prefilled."""
    speed = load_profile("strong").speed(path)
    return concurrency * speed.accept_length / speed.steps.at(concurrency)


async def test_throughput_is_that_of_the_profile(strong: Engines) -> None:
    """Within 5 % at one and four requests, of both engines.

    Answers are long, so that prefills, of which the curve knows nothing, take 2 % at most.
    """
    options = ("--concurrency", "1,4", "--seconds", 6, "--warm-up", 1, "--max-tokens", 512, "--fixed-length")
    runs = await asyncio.gather(
        *(bench(strong[path].url, *options, "--group", "open", "--json") for path in Path)
    )
    for path, done in zip(Path, runs, strict=True):
        assert done.code == 0, done.err
        for cell in done.cells:
            due = curve(path, cell["concurrency"])
            assert cell["tokens_per_second"] == pytest.approx(due, rel=0.05), (path, cell)
            each = due / cell["concurrency"]
            assert cell["tokens_per_second_each"] == pytest.approx(each, rel=0.08), (path, cell)
            assert cell["output_tokens"] <= 512
            assert cell["good"] is True


@pytest.mark.slow
async def test_through_the_router(
    strong: Engines, tmp_path: FilePath, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Same figures, and which engine served: below its watermark all goes to the speculative one."""
    router = RouterProcess(tmp_path_factory.mktemp("router"), *(strong[path].url for path in Path))
    await router.start()
    file = tmp_path / "cells.csv"
    options = ("--concurrency", "1,4", "--seconds", 3, "--warm-up", 0.5, "--max-tokens", 256, "--csv", file)
    done = await bench(f"http://127.0.0.1:{router.data_port}/v1", *options, "--group", "open", "--json")
    metrics = await router.metrics()
    await router.terminate()
    assert done.code == 0, done.err
    for cell in done.cells:
        assert cell["speculative_share"] == 1.0
        assert cell["tokens_per_second"] == pytest.approx(
            curve(Path.SPECULATIVE, cell["concurrency"]), rel=0.15
        )
    # It has no metrics and no loads at this port; being told once is enough.
    assert metrics.sum("rejected_total", reason="route") == 2
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["tokens_per_second"]) for row in rows] == [
        cell["tokens_per_second"] for cell in done.cells
    ]


async def test_requests_that_come_without_waiting(strong: Engines) -> None:
    """Six a second of 32 tokens are 192 tokens per second, which the baseline gives; 26 are too many
    for the speculative engine.
    """
    url = strong[Path.BASELINE].url
    options = ("--seconds", 4, "--warm-up", 0.5, "--max-tokens", 32, "--fixed-length", "--json")
    fine, much = await asyncio.gather(
        bench(url, "--rate", 6, *options), bench(strong[Path.SPECULATIVE].url, "--rate", 26, *options)
    )
    (cell,) = fine.cells
    assert fine.code == 0, fine.err
    assert (cell["rate"], cell["concurrency"]) == (6.0, None)
    assert cell["requests_per_second"] == pytest.approx(6.0, rel=0.5)
    assert cell["tokens_per_second"] == pytest.approx(32 * cell["requests_per_second"], rel=0.25)
    (cell,) = much.cells
    assert much.code == 1, much.err
    assert cell["problems"] == ["more came than was served: the requests in flight grew all the time"]


def answer_shortly(engine: FakeEngine) -> None:
    """Short answers, without end."""

    async def script(conn: EngineConn, request: RawRequest) -> None:
        await conn.stream([role(), content("Hi"), finish(), usage(2), DONE], gap=0.01)

    engine.script = script


async def test_ctrl_c_prints_what_was_measured(
    engines: tuple[FakeEngine, FakeEngine], tmp_path: FilePath
) -> None:
    """In the second of two cells: the first is printed and written, no client is left, the status is 130."""
    engine, _ = engines
    answer_shortly(engine)
    file = tmp_path / "cells.csv"
    options = ("--concurrency", "1,2", "--seconds", 1, "--warm-up", 0.1, "--processes", 2, "--csv", file)
    async with await BenchProcess.start(engine.url, *options) as process:
        clients = await process.clients(2)
        # Two at a time are the second cell.
        await until(lambda: engine.open_requests() == 2, 30.0, "the second cell", every=0.001)
        process.signal(signal.SIGINT)
        done = await process.ended()
    assert done.code == 130, done.err
    assert "1 in flight, open+copy" in done.out
    assert "2 in flight" not in done.out
    assert done.err.splitlines()[-1] == "stopped after 1 of 2 cells"
    assert "Traceback" not in done.err
    assert len(file.read_text().splitlines()) == 2
    await gone(clients)
    assert engine.open_requests() == 0


async def test_ctrl_c_before_anything_was_measured(
    engines: tuple[FakeEngine, FakeEngine], tmp_path: FilePath
) -> None:
    """Answers that never end do not hold it up."""
    engine, _ = engines
    engine.script = ticking(0.01)
    file = tmp_path / "cells.csv"
    async with await BenchProcess.start(engine.url, "--concurrency", 4, "--csv", file) as process:
        await engine.wait_requests(4, 30.0)
        process.signal(signal.SIGINT)
        done = await process.ended()
    assert done.code == 130, done.err
    assert done.err == "stopped after 0 of 1 cells\n"
    assert not file.exists()


async def test_a_client_process_that_is_killed(engines: tuple[FakeEngine, FakeEngine]) -> None:
    """One message, what was measured before, status 1, and the other clients go as well."""
    engine, _ = engines
    answer_shortly(engine)
    options = ("--concurrency", "1,2", "--seconds", 1, "--warm-up", 0.1, "--processes", 2)
    async with await BenchProcess.start(engine.url, *options) as process:
        clients = await process.clients(2)
        await until(lambda: engine.open_requests() == 2, 30.0, "the second cell", every=0.001)
        os.kill(clients[0], signal.SIGKILL)
        done = await process.ended()
    assert done.code == 1, done.err
    last = "a client process ended by itself (killed by SIGKILL); stderr may say why"
    assert done.err.splitlines()[-1] == last
    assert "Traceback" not in done.err
    assert "1 in flight, open+copy" in done.out
    await gone(clients)


async def test_nobody_answers(engines: tuple[FakeEngine, FakeEngine]) -> None:
    engine, _ = engines
    engine.down()
    done: Done = await bench(engine.url)
    assert (done.code, done.out) == (4, "")
    assert done.err == f"{engine.url}: no answer (ConnectError)\n"


async def gone(pids: Sequence[int]) -> None:
    await until(lambda: not any(map(alive, pids)), 5.0, "the end of the client processes")
