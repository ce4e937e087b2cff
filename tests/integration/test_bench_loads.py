"""Loads as client processes make them, seen from the server: so many in flight, no prompt twice, all closed.

One crew serves load after load; nothing of one load may be taken for the next one's.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from router.bench import cell
from router.bench.cell import Pace, measure
from router.bench.crew import ClientDied, Crew
from router.bench.messages import Address, Answers, Load
from tests.cases.kit.conn import EngineConn, RawRequest
from tests.cases.kit.engine import FakeEngine
from tests.cases.kit.scripts import silent
from tests.cases.kit.sse import DONE, content, finish, role, usage
from tests.cases.kit.waiting import until
from tests.support.bench_process import alive
from tests.support.leftovers import Errors

PACE = Pace(0.6, 0.1)
GAP = 0.02


async def answering(conn: EngineConn, request: RawRequest) -> None:
    """Four pieces of text in less than a tenth of a second."""
    events = [role(), *[content(f" {number}") for number in range(4)], finish(), usage(8), DONE]
    await conn.stream(events, gap=GAP)


@pytest.fixture
async def crew(errors: Errors) -> AsyncIterator[Crew]:
    """Two client processes."""
    async with Crew(2) as made:
        yield made


def load(engine: FakeEngine, slots: int, rate: float = 0.0, prompts: int = 500, timeout: float = 5.0) -> Load:
    address = Address("127.0.0.1", engine.port, "/v1/chat/completions", "fake")
    asked: list[str | list[dict[str, str]]] = [f"prompt {number}" for number in range(prompts)]
    return Load(address, asked, Answers(8, timeout=timeout), "seed", slots, rate)


def asked(engine: FakeEngine) -> list[str]:
    return [json.loads(request.body)["messages"][0]["content"] for request in engine.requests]


@pytest.mark.parametrize("slots", [1, 5])
async def test_so_many_are_in_flight(slots: int, crew: Crew, a: FakeEngine) -> None:
    """The server counts them; one slot is one process's alone, five are three and two."""
    most = 0

    async def counting(conn: EngineConn, request: RawRequest) -> None:
        nonlocal most
        most = max(most, a.open_requests())
        await answering(conn, request)

    a.script = counting
    seen = await measure(crew, load(a, slots), PACE, time.monotonic)
    assert most == slots
    found = seen.figures
    assert found.failures == {}
    assert found.in_flight == pytest.approx(slots, rel=0.15)
    assert found.output_tokens == 8.0
    assert seen.problems == ()
    assert 0.0 < seen.client_busy < 1.0
    assert a.open_requests() == 0


async def test_clients_at_their_limit_say_so(
    crew: Crew, a: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit that any work reaches: what the processes report of themselves arrives."""
    a.script = answering
    monkeypatch.setattr(cell, "CLIENT_LIMIT", 1e-4)
    seen = await measure(crew, load(a, 2), PACE, time.monotonic)
    assert [problem.split(" (")[0] for problem in seen.problems] == ["the client is at its limit"]
    monkeypatch.setattr(cell, "CLIENT_LIMIT", 1.0)
    monkeypatch.setattr(cell, "LATE_LIMIT", 1e-6)
    seen = await measure(crew, load(a, 2), PACE, time.monotonic)
    assert [problem.split(" late")[0] for problem in seen.problems] == [
        f"the client is {1000 * seen.client_late:.0f} ms"
    ]


async def test_no_prompt_is_asked_twice(crew: Crew, a: FakeEngine) -> None:
    """As long as there are enough: a prefix cache would answer the second time."""
    a.script = answering
    await measure(crew, load(a, 4), PACE, time.monotonic)
    assert len(asked(a)) > 12
    assert max(Counter(asked(a)).values()) == 1


async def test_few_prompts_go_round(crew: Crew, a: FakeEngine) -> None:
    a.script = answering
    await measure(crew, load(a, 3, prompts=2), PACE, time.monotonic)
    assert set(asked(a)) == {"prompt 0", "prompt 1"}


async def test_an_open_loop_sends_at_its_rate(crew: Crew, a: FakeEngine) -> None:
    """Answers do not hold it up: of sixty a second, that take 160 ms each, ten are in flight."""
    a.script = answering
    seen = await measure(crew, load(a, 0, rate=60.0), Pace(2.0, 0.2), time.monotonic)
    found = seen.figures
    # Chance leaves 120 requests an error of 9 %: three times that, and a busy machine.
    assert found.requests_per_second == pytest.approx(60.0, rel=0.35)
    assert found.success_rate == 1.0
    assert found.in_flight > 4


async def test_requests_that_fail_are_samples_like_others(crew: Crew, a: FakeEngine) -> None:
    a.script = silent
    seen = await measure(crew, load(a, 3, timeout=0.3), PACE, time.monotonic)
    assert set(seen.figures.failures) == {"timeout"}
    assert seen.figures.success_rate == 0.0


async def test_a_load_that_is_cut_leaves_nothing_to_the_next(crew: Crew, a: FakeEngine) -> None:
    """Its connections are closed at once, and the next cell's requests are its own: all of them succeed."""
    a.script = silent
    cut = asyncio.ensure_future(measure(crew, load(a, 6), PACE, time.monotonic))
    await a.wait_requests(6)
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    a.script = answering
    seen = await measure(crew, load(a, 2), PACE, time.monotonic)
    assert seen.figures.failures == {}
    assert seen.figures.in_flight == pytest.approx(2, rel=0.15)
    assert a.open_requests() == 0


async def test_a_client_process_that_dies_ends_the_cell(errors: Errors, a: FakeEngine) -> None:
    """Within moments, and not at the end of the window; with how it died. The other processes go as well."""
    a.script = answering
    async with Crew(2) as crew:
        began = time.monotonic()
        dying = asyncio.ensure_future(measure(crew, load(a, 4), Pace(60.0, 0.1), time.monotonic))
        await a.wait_requests(8)
        pids = crew.pids
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(ClientDied, match="ended by itself \\(killed by SIGKILL\\)"):
            await dying
        assert time.monotonic() - began < 20.0
    await until(lambda: not any(map(alive, pids)), 5.0, "the end of the client processes")
