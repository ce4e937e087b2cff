"""The order of cells, and what is kept of work that is cut short."""

from __future__ import annotations

import asyncio

import pytest

from router.bench.messages import Answers
from router.bench.sweep import Plan, plans, unless
from tests.unit.bench.build import ADDRESS, prompts


def test_repeats_are_outermost() -> None:
    """What drifts over an hour must not look like an effect of the load."""
    found = plans((1, 8), (0.5,), (prompts("open"), prompts("copy")), 2)
    assert [one.repeat for one in found] == [0] * 6 + [1] * 6
    assert [one.name for one in found[:4]] == [
        "1 in flight, open",
        "8 in flight, open",
        "0.5/s, open",
        "1 in flight, copy",
    ]
    assert found[6].name == "1 in flight, open, repeat 2"


def test_a_closed_loop_has_slots_and_an_open_one_a_rate() -> None:
    closed = Plan(8, 0.0, prompts()).load(ADDRESS, Answers(), 0)
    opened = Plan(0, 0.5, prompts()).load(ADDRESS, Answers(), 0)
    assert (closed.slots, closed.rate, opened.slots, opened.rate) == (8, 0.0, 0, 0.5)


async def test_work_gives_what_it_gives_unless_it_is_stopped() -> None:
    async def work() -> int:
        return 7

    assert await unless(asyncio.Event(), work()) == 7


async def test_what_goes_wrong_comes_through() -> None:
    async def work() -> int:
        raise LookupError("gone")

    with pytest.raises(LookupError):
        await unless(asyncio.Event(), work())


async def test_a_stop_cancels_the_work_and_waits_for_its_end() -> None:
    stopping, tidied = asyncio.Event(), asyncio.Event()

    async def work() -> int:
        try:
            stopping.set()
            return await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            tidied.set()

    assert await unless(stopping, work()) is None
    assert tidied.is_set()
