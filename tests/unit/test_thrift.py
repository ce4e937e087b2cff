"""What every request asks for is made no more often than it must be, and is never stale."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from router.core.live import PathLive
from router.core.load import EngineLoad, Readings
from router.core.rid import RID_LENGTH
from router.core.words import Path
from router.thrift import ID_BATCH, Measure, Once, new_ids
from tests.support import FakeClock


def test_ids_are_hex_of_one_length_and_all_different() -> None:
    """Engines tell requests apart by them and match them by prefix; batches must not repeat."""
    ids = list(itertools.islice(new_ids(), 3 * ID_BATCH + 1))
    assert len(set(ids)) == len(ids)
    assert {len(each) for each in ids} == {RID_LENGTH}
    assert all(int(each, 16) >= 0 for each in ids)


def test_what_is_asked_for_several_times_in_a_moment_is_done_once_and_then_again() -> None:
    """What is asked for while it is being done needs another turn: the world has changed meanwhile."""
    later: list[Callable[[], object]] = []
    done: list[int] = []

    def what() -> None:
        done.append(len(done))
        if len(done) == 1:
            once()

    once = Once(what, later.append)
    for _ in range(3):
        once()
    assert not done
    assert len(later) == 1
    later.pop()()
    assert done == [0]
    assert len(later) == 1
    later.pop()()
    assert done == [0, 1]
    assert not later


def load(at: float, tokens: float) -> EngineLoad:
    return EngineLoad(at, running=1, waiting=0, generation_tokens=tokens, accept_length=2.5, cache_hits=0.75)


def test_a_measure_is_made_once_for_each_reading_and_lapses_with_it() -> None:
    clock = FakeClock(10.0)
    readings = {path: Readings(clock) for path in Path}
    measure = Measure(readings)
    assert measure(Path.SPECULATIVE) == PathLive()
    readings[Path.SPECULATIVE].record(load(9.0, 100.0))
    readings[Path.SPECULATIVE].record(load(10.0, 150.0))
    found = measure(Path.SPECULATIVE)
    assert found == PathLive(0, 10.0, 50.0, 2.5, 0.75)
    clock.advance(5.0)
    assert measure(Path.SPECULATIVE) is found
    readings[Path.SPECULATIVE].record(load(14.0, 550.0))
    assert measure(Path.SPECULATIVE) == PathLive(0, 14.0, 90.0, 2.5, 0.75)
    clock.advance(10.0)
    assert measure(Path.SPECULATIVE) == PathLive()


def test_a_measure_follows_engines_that_change_places_and_knows_none_that_is_not_there() -> None:
    clock = FakeClock(10.0)
    readings = {path: Readings(clock) for path in Path}
    measure = Measure(readings)
    readings[Path.SPECULATIVE].record(load(10.0, 100.0))
    assert measure(Path.SPECULATIVE).accept_length == 2.5
    readings[Path.SPECULATIVE], readings[Path.BASELINE] = readings[Path.BASELINE], readings[Path.SPECULATIVE]
    assert measure(Path.SPECULATIVE) == PathLive()
    assert measure(Path.BASELINE).accept_length == 2.5
    del readings[Path.BASELINE]
    assert measure(Path.BASELINE) == PathLive()
