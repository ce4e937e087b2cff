"""Work over several processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from router.replay.spread import WORTH, cores, spread


def whose(item: int) -> tuple[int, int]:
    """The item and the process that worked on it; the first ones take longest."""
    time.sleep(0.05 / (1 + item))
    return item, os.getpid()


def fail(item: int) -> int:
    raise ValueError(f"item {item}")


def test_results_are_in_the_order_of_the_items_whoever_ends_first() -> None:
    done: list[int] = []
    found = spread(whose, range(8), 2, done.append)
    assert [item for item, _ in found] == list(range(8))
    assert sorted(done) == list(range(8))
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.parametrize("items", [0, 1, 3])
def test_one_job_works_here(items: int) -> None:
    assert spread(whose, range(items), 1) == [(item, os.getpid()) for item in range(items)]


def clock(step: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step


@pytest.mark.parametrize(("seconds", "here"), [(WORTH / 4, True), (WORTH, False)])
def test_short_work_is_not_worth_other_processes(seconds: float, here: bool) -> None:
    """Three more items as long as the first: below the bound together, or above it."""
    ticking = clock(seconds)
    found = spread(whose, range(4), clock=lambda: next(ticking))
    assert [item for item, _ in found] == list(range(4))
    assert found[0][1] == os.getpid()
    assert (found[-1][1] == os.getpid()) is (here or cores() == 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_is_the_caller_s(jobs: int) -> None:
    with pytest.raises(ValueError, match="item"):
        spread(fail, range(4), jobs)
