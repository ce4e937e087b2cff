"""The second start: from what is free then, not from what was planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.core.words import Path
from router.launch.plan import (
    GpuMemory,
    Gqa,
    Kind,
    ModelShape,
    Plan,
    Refusal,
    SecondStart,
    Wishes,
    make_plan,
    second_fraction,
)
from tests.unit.launch.planned import PROFILES

GIB, MIB = 1 << 30, 1 << 20
MODEL = ModelShape("m", "/m", "X", 40 * GIB, 64, 64, Gqa(8, 128, 128), 131072)


def plan_on(count: int = 2, taken: int = 0, **wishes: object) -> Plan:
    """Two engines with ngram drafts on cards of 80 GiB, the first of which has lost `taken`."""
    gpus = tuple(GpuMemory(i, "card", 80 * GIB, 80 * GIB - (0 if i else taken)) for i in range(count))
    found = make_plan(
        MODEL,
        None,
        gpus,
        replace(Wishes(tp=count), **wishes),  # type: ignore[arg-type]
        PROFILES.speculation("ngram"),
        PROFILES.hardware("generic"),
    )
    assert isinstance(found, Plan), found.reason
    return found


def settled(plan: Plan, grown: float) -> dict[int, int]:
    """Free memory after the first engine has taken that share of its headroom."""
    first = plan.engines[0]
    held = first.total - int(first.headroom * (1 - grown))
    return {gpu.index: gpu.free - held for gpu in plan.gpus}


def started(found: SecondStart | Refusal) -> SecondStart:
    assert isinstance(found, SecondStart), found.reason
    return found


@pytest.mark.parametrize("grown", [0.0, 0.3, 1.0])
def test_the_pool_is_what_was_planned_however_far_the_first_has_grown(grown: float) -> None:
    plan = plan_on()
    found = started(second_fraction(plan, settled(plan, grown)))
    assert found.max_total_tokens == plan.engines[1].tokens


def test_the_fraction_is_of_what_is_free_then() -> None:
    """Weights and pool over what is free after the context: of less memory it is a larger share."""
    plan = plan_on()
    engine = plan.engines[1]
    free = settled(plan, 0.5)
    found = started(second_fraction(plan, free))
    pre = min(free.values()) - engine.fixed.context
    static = engine.fixed.static + engine.budget
    assert static / pre <= found.fraction < static / pre + 0.0001
    assert found.fraction > started(second_fraction(plan, settled(plan, 0.0))).fraction


def test_a_first_engine_that_took_more_than_its_reserve_shrinks_the_second_pool() -> None:
    plan = plan_on()
    over = 3 * GIB
    free = {index: size - over for index, size in settled(plan, 1.0).items()}
    found = started(second_fraction(plan, free))
    assert found.max_total_tokens is not None
    cell = plan.engines[1].cell.total
    lost = (plan.engines[1].tokens or 0) - found.max_total_tokens
    assert over - 512 * cell <= lost * cell <= over


def test_a_stranger_that_came_meanwhile_is_not_taken_for_the_first_engine() -> None:
    """The first engine has half of its headroom still to take; a stranger took 3 GiB of what is free."""
    plan = plan_on()
    first = plan.engines[0]
    before = settled(plan, 0.5)
    free = {index: size - 3 * GIB for index, size in before.items()}
    used = {gpu.index: gpu.free - before[gpu.index] for gpu in plan.gpus}
    with_driver = started(second_fraction(plan, free, first_used=used))
    without = started(second_fraction(plan, free))
    assert without.max_total_tokens == plan.engines[1].tokens
    assert with_driver.max_total_tokens is not None
    lost = ((plan.engines[1].tokens or 0) - with_driver.max_total_tokens) * plan.engines[1].cell.total
    assert first.headroom // 2 > 3 * GIB
    assert 3 * GIB - 512 * plan.engines[1].cell.total <= lost <= 3 * GIB


def test_nothing_is_started_where_a_request_would_not_fit() -> None:
    plan = plan_on()
    free = dict.fromkeys((0, 1), 27 * GIB)
    found = second_fraction(plan, free)
    assert isinstance(found, Refusal)
    assert found.kind is Kind.MEMORY
    assert "needed for one request of 32768 tokens" in found.reason
    assert any("GPU 1: 27.0 GiB free" in line for line in found.arithmetic)


def test_gpus_that_became_uneven_are_refused() -> None:
    plan = plan_on()
    free = settled(plan, 1.0) | {1: settled(plan, 1.0)[1] + 8 * GIB}
    found = second_fraction(plan, free)
    assert isinstance(found, Refusal)
    assert found.kind is Kind.UNEVEN


def test_a_restarted_first_engine_counts_the_other_as_resident() -> None:
    plan = plan_on()
    fast, plain = plan.engine(Path.SPECULATIVE), plan.engine(Path.BASELINE)
    free = {gpu.index: gpu.free - plain.total for gpu in plan.gpus}
    found = started(second_fraction(plan, free, path=Path.SPECULATIVE))
    assert found.max_total_tokens == fast.tokens
    assert found.fraction > fast.fraction


@pytest.mark.parametrize("first", list(Path))
@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("total", [80, 141])
def test_pools_are_what_was_asked_for_in_either_order(first: Path, share: float, tp: int, total: int) -> None:
    """60/40 and 30/70 on 80 and 141 GB cards, tp 1 to 8, both orders: within 5 % of the share."""
    gpus = tuple(GpuMemory(index, "card", total * GIB, total * GIB) for index in range(tp))
    model = replace(MODEL, weight_bytes=10 * GIB * tp)
    wishes = Wishes(tp=tp, kv_share=share, first=first)
    plan = make_plan(model, None, gpus, wishes, PROFILES.speculation("ngram"), PROFILES.hardware("generic"))
    assert isinstance(plan, Plan)
    assert plan.engines[0].path is first
    found = started(second_fraction(plan, settled(plan, 0.4)))
    sizes = {plan.engines[0].path: plan.engines[0].kv_bytes, plan.engines[1].path: found.kv_bytes}
    assert sizes[Path.SPECULATIVE] / sum(sizes.values()) == pytest.approx(share, rel=0.05)


def test_5_gb_of_a_stranger_on_one_gpu_are_refused_with_its_name_where_sglang_would_refuse() -> None:
    """80 and 75 GiB free differ by 6 %, which SGLang accepts; what is left for the second start does not."""
    with pytest.raises(AssertionError, match=r"when the baseline engine starts, GPU 0 has .* less than 0\.9"):
        plan_on(taken=5 * GIB)
    plan = plan_on(taken=5 * GIB, allow_uneven=True)
    assert plan.spare(1) - plan.spare(0) == 5 * GIB
