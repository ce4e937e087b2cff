"""The same work on many items, over several processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Seconds of work below which other processes would take longer to start than they save.
WORTH = 3.0


def spread(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int | None = None,
    on_done: Callable[[Item], None] = lambda item: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Result]:
    """`work` of each item, in their order, whoever is finished first.

    Args:
        work: can be pickled, as items and results can, unless `jobs` is 1.
        jobs: processes. None: as many as there are cores, once the first item has shown that it is worth it.
        on_done: told of each item as its work ends.
    """
    began = clock()
    first = _here(work, items[:1], on_done) if jobs is None else []
    rest = items[len(first) :]
    if jobs is None:
        jobs = cores() if (clock() - began) * len(rest) > WORTH else 1
    if jobs == 1 or len(rest) < 2:
        return first + _here(work, rest, on_done)
    return first + _elsewhere(work, rest, jobs, on_done)


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # a platform without
        return os.cpu_count() or 1


def _here(
    work: Callable[[Item], Result], items: Sequence[Item], on_done: Callable[[Item], None]
) -> list[Result]:
    results = []
    for item in items:
        results.append(work(item))
        on_done(item)
    return results


def _elsewhere(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int, on_done: Callable[[Item], None]
) -> list[Result]:
    # New processes, not forks: a fork beside the thread of a progress bar may hang.
    with ProcessPoolExecutor(min(jobs, len(items)), get_context("spawn"), _end_at_interrupt) as processes:
        futures = {processes.submit(work, item): item for item in items}
        try:
            for future in as_completed(futures):
                future.result()
                on_done(futures[future])
        except BaseException:
            processes.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _end_at_interrupt() -> None:
    """Ctrl-C reaches every process; only the first one has something to say about it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
