"""When memory stands still, whose it is, and whether it is what was planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from router.core.words import Path
from router.launch.memory import STILL, Stillness, as_started, free_on, used_by, used_on, verify
from router.launch.plan import EnginePlan, ForeignProcess, GpuMemory, SecondStart
from tests.unit.launch import models
from tests.unit.launch.planned import fits, planned, shape

GIB = 1 << 30
MIB = 1 << 20


@pytest.fixture
def engine(tmp_path: FilePath) -> EnginePlan:
    target = shape(tmp_path, "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    draft = shape(tmp_path, "eagle", models.LLAMA_EAGLE3, models.LLAMA_EAGLE3_BYTES)
    return fits(planned(target, draft, "8x96GiB")).engine(Path.SPECULATIVE)


def test_still_is_after_some_seconds_without_change() -> None:
    still = Stillness(3)
    assert not still.add(0, {0: 0, 1: 0})
    assert not still.add(2.9, {0: STILL - 1, 1: 0})
    assert still.add(3, {0: 0, 1: STILL - 1})


def test_a_change_on_one_gpu_begins_anew() -> None:
    still = Stillness(3)
    still.add(0, {0: 0, 1: 0})
    assert not still.add(3, {0: 0, 1: STILL})
    assert not still.add(5.9, {0: 0, 1: STILL})
    assert still.add(6, {0: 0, 1: STILL})


def test_slow_growth_is_change() -> None:
    still = Stillness(3)
    assert not any(still.add(second, {0: second * 30 * MIB}) for second in range(30))


def test_whose_memory_it_is() -> None:
    gpus = (
        GpuMemory(0, "x", 100, 60, (ForeignProcess(7, "a", 30), ForeignProcess(8, "b", 10))),
        GpuMemory(1, "x", 100, 90, (ForeignProcess(7, "a", 10),)),
        GpuMemory(2, "x", 100, 99, ()),
    )
    assert used_by(gpus, {7}, (0, 1)) == {0: 30, 1: 10}
    assert used_by(gpus, {7, 8}, (0,)) == {0: 40}
    assert used_by(gpus, {8}, (0, 1)) is None  # a container: the driver speaks of other pids
    assert used_by(gpus, (), (0,)) is None
    assert free_on(gpus, (1, 2)) == {1: 90, 2: 99}
    assert used_on(gpus, (0,)) == {0: 40}


def least(engine: EnginePlan) -> int:
    """Weights as stored, and the pool."""
    return int((engine.fixed.weights + engine.fixed.draft) / 1.04) + engine.kv_bytes


def test_between_the_least_and_the_most_all_is_well(engine: EnginePlan) -> None:
    for used in (least(engine), engine.total, least(engine) - GIB + MIB, engine.total + GIB):
        found = verify(engine, {0: used}, {0: 2 * GIB}, GIB, engine.tokens, True)
        assert found.problems == ()
        assert not found.short


def test_beyond_a_gib_it_is_told_with_the_gpu(engine: EnginePlan) -> None:
    for used in (least(engine) - GIB - MIB, engine.total + GIB + MIB):
        found = verify(engine, {0: engine.total, 5: used}, {0: 2 * GIB, 5: 2 * GIB}, GIB, None, True)
        assert len(found.problems) == 1
        assert found.problems[0].startswith("GPU 5: it holds")


def test_less_free_than_the_reserve_is_short(engine: EnginePlan) -> None:
    found = verify(engine, {0: engine.total}, {0: GIB - 1}, GIB, None, True)
    assert found.short
    assert "reserve" in found.problems[0]


def test_pools_two_percent_with_a_cap_five_without(engine: EnginePlan) -> None:
    assert engine.tokens is not None

    def problems(share: float, capped: bool) -> int:
        tokens = int((engine.tokens or 0) * share)
        return len(verify(engine, {0: engine.total}, {0: 2 * GIB}, GIB, tokens, capped).problems)

    assert [problems(share, True) for share in (0.97, 0.985, 1.0)] == [1, 0, 0]
    assert [problems(share, False) for share in (0.94, 0.955, 1.045, 1.06)] == [1, 0, 0, 1]


def test_a_measured_model_has_no_tokens_to_compare(engine: EnginePlan) -> None:
    found = verify(replace(engine, tokens=None), {}, {}, GIB, 5, True)
    assert found.problems == ()


def test_as_started_has_the_pool_it_was_given(engine: EnginePlan) -> None:
    found = as_started(engine, SecondStart(0.5, 1024, 1024 * engine.cell.total))
    assert (found.tokens, found.kv_bytes) == (1024, 1024 * engine.cell.total)
    assert found.fixed == engine.fixed
