"""The fraction of an engine that starts beside a running one, from what was measured then."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.words import Path, Placement
from router.launch.plan.result import EnginePlan, Kind, Plan, Refusal, SecondStart, gib, static_fraction
from router.launch.plan.split import LEAST_MEASURED_POOL, PAGE, pages_up
from router.launch.plan.uneven import is_uneven


def second_fraction(
    plan: Plan,
    measured_free: Mapping[int, int],
    path: Path | None = None,
    first_used: Mapping[int, int] | None = None,
) -> SecondStart | Refusal:
    """`--mem-fraction-static` and `--max-total-tokens` for the engine that starts now.

    Args:
        plan: what both were planned by.
        measured_free: bytes free on each of the engine's GPUs, after everything that runs there has settled.
        path: the engine that starts; None is the one planned last. A restart is the same sum: the other
            engine is resident then, whichever was first.
        first_used: bytes the resident engine holds on each GPU, if the driver tells. Without it what is
            missing from the free memory of planning time is taken for the resident engine's.
    """
    engine = plan.engines[-1] if path is None else plan.engine(path)
    resident = _resident(plan, engine)
    growth = _growth(plan, engine, resident, measured_free, first_used)
    pre = {index: measured_free[index] - engine.fixed.context for index in engine.gpus}
    least = min(pre.values())
    left = min(pre[index] - growth[index] for index in engine.gpus)
    kv_bytes = left - plan.wishes.reserves.spare - engine.fixed.static - engine.fixed.headroom
    tokens = None
    if engine.tokens is not None:
        # Never above the plan: what rounding left over is no reason for a pool of another size each time.
        tokens = min(engine.tokens, max(0, kv_bytes) // engine.cell.total // PAGE * PAGE)
    need = LEAST_MEASURED_POOL if tokens is None else pages_up(plan.wishes.context) * engine.cell.total
    if kv_bytes < need:
        return Refusal(
            Kind.MEMORY,
            f"{engine.path.value}: {gib(kv_bytes)} GiB would be left for KV on a GPU, {gib(need)} are needed "
            f"for one request of {plan.wishes.context} tokens",
            _lines(plan, engine, measured_free, growth),
        )
    if is_uneven(pre) and not plan.wishes.allow_uneven:
        return Refusal(
            Kind.UNEVEN,
            f"{engine.path.value}: free memory differs by over a tenth between GPUs, which SGLang refuses",
            _lines(plan, engine, measured_free, growth),
        )
    budget = engine.cell.pool_of(kv_bytes) if tokens is None else tokens * engine.cell.budget
    return SecondStart(
        static_fraction(engine.fixed.static + budget, least, capped=tokens is not None),
        tokens,
        kv_bytes if tokens is None else tokens * engine.cell.total,
    )


def _resident(plan: Plan, engine: EnginePlan) -> EnginePlan | None:
    if plan.placement is not Placement.SHARED:
        return None
    return next(other for other in plan.engines if other.path is not engine.path)


def _growth(
    plan: Plan,
    engine: EnginePlan,
    resident: EnginePlan | None,
    measured_free: Mapping[int, int],
    first_used: Mapping[int, int] | None,
) -> dict[int, int]:
    """What the resident engine may still take on each GPU."""
    if resident is None:
        return dict.fromkeys(engine.gpus, 0)
    before = {gpu.index: gpu.free for gpu in plan.gpus}
    used = first_used or {index: before[index] - measured_free[index] for index in engine.gpus}
    return {index: max(0, resident.total - used[index]) for index in engine.gpus}


def _lines(
    plan: Plan, engine: EnginePlan, measured_free: Mapping[int, int], growth: Mapping[int, int]
) -> tuple[str, ...]:
    own = engine.fixed
    return (
        *(
            f"GPU {index}: {gib(measured_free[index])} GiB free, the other may take {gib(growth[index])}"
            for index in engine.gpus
        ),
        f"context {gib(own.context)} + weights and draft {gib(own.static)} + headroom {gib(own.headroom)} + "
        f"spare {gib(plan.wishes.reserves.spare)}",
    )
