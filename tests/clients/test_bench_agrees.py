"""`spec-router bench` and SGLang's own load generator say the same of the same server.

The server is a simulated engine whose step takes 60 ms whatever runs in it, one token each, and whose prefill
takes next to nothing: what both should say is known, and independent of how their requests lie to each other
in time. That matters, for they send differently: theirs starts all slots at once and divides all tokens by
the time from the first request to the last answer; ours staggers them and counts in a window. With answers
of one length and as many prompts for each slot, theirs has neither ramp nor tail, so the two definitions
come to the same.

Medians of three runs, by turns, at 1, 8 and 32 in flight: throughput, median TTFT and median TPOT within 5 %.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from router.core.words import Path
from tests.clients.agreement import Job, Said, compare, table
from tests.soak.engines import EngineProcess

STEP = 0.06
PREFILL = 0.002
TOKENS = 20
LEVELS = (1, 8, 32)
SPEED = f"step_seconds: {{1: {STEP}}}\n  prefill_base_seconds: {PREFILL}\n  prefill_seconds_per_token: 0"
PROFILE = f"baseline:\n  {SPEED}\nspeculative:\n  {SPEED}\n"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[Said, Said]]]:
    """What both say, by concurrency."""
    folder = tmp_path_factory.mktemp("agreement")
    profile = folder / "constant.yaml"
    profile.write_text(PROFILE)
    engine = EngineProcess(Path.BASELINE, profile)
    try:
        asyncio.run(engine.start())
        found = compare(Job(engine.url, "sim", LEVELS, TOKENS, rounds=6, seconds=7.0), folder)
        print(table(found))
        yield found
    finally:
        engine.kill()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("figure", ["throughput", "ttft", "tpot"])
def test_they_agree(said: dict[int, tuple[Said, Said]], level: int, figure: str) -> None:
    theirs, ours = (getattr(one, figure) for one in said[level])
    assert ours == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize("level", LEVELS)
def test_both_say_what_the_server_does(said: dict[int, tuple[Said, Said]], level: int) -> None:
    """Agreement alone could be of two that are wrong: a token each 60 ms is what there is."""
    for one in said[level]:
        assert one.tpot == pytest.approx(1000 * STEP, rel=0.07)
        assert one.throughput == pytest.approx(level / STEP, rel=0.07)
