"""What is measured in which order."""

from __future__ import annotations

from itertools import pairwise

from router.bench.prompts import built_in
from router.calibrate.steps import One, Prefill, Two, engine_steps, router_steps, seconds_at_least
from router.core.words import Path, Placement

LOADS = (1, 4, 32, 128)


def test_engines_take_turns_and_repeats_come_last() -> None:
    """Every load of every group on both engines, one right after the other; second visits after all first."""
    steps = [step for step in engine_steps(LOADS, built_in(), 2, Placement.SHARED) if isinstance(step, One)]
    assert len(steps) == len(LOADS) * 2 * 2 * 2
    for one, other in list(pairwise(steps))[::2]:
        assert (one.path, other.path) == tuple(Path)
        assert one.plan == other.plan
    repeats = [step.plan.repeat for step in steps]
    assert repeats == sorted(repeats)


def test_the_mixed_cells_are_few_and_many_both_ways() -> None:
    """32 and 4 are the many and the few of these loads; each engine is drained, the last cell in turn."""
    steps = [step for step in engine_steps(LOADS, built_in(), 2, Placement.SHARED) if isinstance(step, Two)]
    seen = [(step.baseline.concurrency, step.speculative.concurrency, step.drained) for step in steps]
    few = [(32, 4, Path.SPECULATIVE), (4, 32, Path.BASELINE)]
    assert seen == [*few, (32, 32, Path.BASELINE), *few, (32, 32, Path.SPECULATIVE)]


def test_engines_on_gpus_of_their_own_are_not_mixed() -> None:
    """They share nothing that could be split."""
    steps = engine_steps(LOADS, built_in(), 1, Placement.SEPARATE)
    assert not any(isinstance(step, Two) for step in steps)
    assert [step.path for step in steps if isinstance(step, Prefill)] == list(Path)


def test_one_load_is_its_own_few_and_many() -> None:
    """The least sweep has mixed cells too."""
    (many, *_) = [
        step for step in engine_steps((2,), built_in(), 1, Placement.SHARED) if isinstance(step, Two)
    ]
    assert (many.baseline.concurrency, many.speculative.concurrency) == (2, 2)


def test_loads_rise_through_the_router_and_the_time_is_foretold() -> None:
    """One change of the path, and a length that counts windows and warm-ups."""
    steps = router_steps((16, 1, 4), built_in()[0])
    assert [step.plan.concurrency for step in steps] == [1, 4, 16]
    assert seconds_at_least(steps, window=8.0, warm_up=2.0) == 30.0
