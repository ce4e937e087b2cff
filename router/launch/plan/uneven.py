"""SGLang's check that GPUs have about the same free memory (`distributed/bootstrap.py`, 0.5.23)."""

from __future__ import annotations

from collections.abc import Mapping

from router.launch.plan.result import EnginePlan, Kind, Plan, Refusal, gib
from router.launch.plan.shapes import GpuMemory


def is_uneven(pre: Mapping[int, int]) -> bool:
    """Whether some rank sees less than 0.9 of its own free memory as the least of all; bytes by GPU."""
    return 10 * min(pre.values()) < 9 * max(pre.values())


def uneven_start(plan: Plan) -> Refusal | None:
    """A refusal if a start of the plan would trip over the check, at the worst moment for it."""
    if plan.wishes.allow_uneven:
        return None
    for engine in plan.engines:
        pre = {
            gpu.index: gpu.free - engine.before - engine.fixed.context
            for gpu in plan.gpus
            if gpu.index in engine.gpus
        }
        if min(pre.values()) > 0 and is_uneven(pre):
            return _refusal(plan, engine, pre)
    return None


def _refusal(plan: Plan, engine: EnginePlan, pre: Mapping[int, int]) -> Refusal:
    fullest = min(pre, key=lambda index: pre[index])
    return Refusal(
        Kind.UNEVEN,
        f"when the {engine.path.value} engine starts, GPU {fullest} has {gib(pre[fullest])} GiB free and "
        f"another {gib(max(pre.values()))}: less than 0.9 of it, which SGLang refuses. Free the memory, or "
        "set launch.allow_uneven (every GPU is then used as the fullest one)",
        tuple(_line(gpu, pre[gpu.index]) for gpu in plan.gpus if gpu.index in pre),
        attempt=plan,
    )


def _line(gpu: GpuMemory, pre: int) -> str:
    others = ", ".join(f"pid {each.pid} {each.name} {gib(each.used)} GiB" for each in gpu.processes)
    return f"GPU {gpu.index}: {gib(gpu.free)} GiB free now, {gib(pre)} then" + (
        f"; {others}" if others else ""
    )
