"""Numbers in, plan out: whether the engines fit, with which pools, and what would fit if they do not."""

from __future__ import annotations

from collections.abc import Sequence

from router.core.words import Path, Placement
from router.launch.plan.arithmetic import memory_lines, memory_reason
from router.launch.plan.checks import first_problem, gpu_indices
from router.launch.plan.options import options
from router.launch.plan.profile import HardwareProfile, SpeculationProfile
from router.launch.plan.result import EnginePlan, Kind, Plan, Refusal
from router.launch.plan.shapes import GpuMemory, ModelShape
from router.launch.plan.split import Outline, in_order, left_for_pools, outlines, share_bounds, share_of
from router.launch.plan.uneven import uneven_start
from router.launch.plan.warn import warnings
from router.launch.plan.wishes import Wishes


def make_plan(
    model: ModelShape,
    draft: ModelShape | None,
    gpus: tuple[GpuMemory, ...],
    wishes: Wishes,
    profile: SpeculationProfile,
    hardware: HardwareProfile,
    adaptive: SpeculationProfile | None = None,
) -> Plan | Refusal:
    """Lay one or two engines out on the GPUs.

    A plan holds for the memory that is free now. The first engine's fraction is final; that of one started
    beside it is a forecast until `second_fraction` has a measurement. `adaptive` is the profile that a
    refusal tries for one engine instead of two.
    """
    found = without_options(model, draft, gpus, wishes, profile, hardware)
    if isinstance(found, Refusal) and found.kind in (Kind.MEMORY, Kind.GPUS):

        def again(other: Wishes, with_profile: SpeculationProfile) -> Plan | Refusal:
            return without_options(model, draft, gpus, other, with_profile, hardware)

        return options(found, model, len(gpus), wishes, profile, adaptive, again)
    return found


def without_options(
    model: ModelShape,
    draft: ModelShape | None,
    gpus: tuple[GpuMemory, ...],
    wishes: Wishes,
    profile: SpeculationProfile,
    hardware: HardwareProfile,
) -> Plan | Refusal:
    """As `make_plan`, but a refusal says nothing about what would fit."""
    problem = first_problem(model, draft, gpus, wishes, profile, hardware)
    if problem:
        return problem
    by_index = {gpu.index: gpu for gpu in gpus}
    pools = [(path, tuple(by_index[index] for index in own)) for path, own in gpu_indices(wishes, profile)]
    lines = outlines(model, draft, pools, wishes, profile)
    used = tuple(gpu for gpu in gpus if any(gpu in own for _, own in pools))

    def plan(engines: Sequence[EnginePlan]) -> Plan:
        ordered = in_order(engines, wishes.placement is Placement.SHARED)
        made = Plan(model, draft if profile.draft_model else None, used, wishes, hardware, ordered)
        return Plan(made.model, made.draft, used, wishes, hardware, ordered, warnings(made))

    engines = _pools(lines, wishes)
    if engines is None:
        attempt = plan([line.planned(line.least_bytes) for line in lines])
        return Refusal(
            Kind.MEMORY, memory_reason(lines, wishes), memory_lines(lines, model, wishes), attempt=attempt
        )
    made = plan(engines)
    return uneven_start(made) or _narrowed(made) or made


def _pools(lines: Sequence[Outline], wishes: Wishes) -> list[EnginePlan] | None:
    """The engines with their pools, or None if a pool would be too small."""
    spare = wishes.reserves.spare
    if wishes.placement is not Placement.SHARED:
        budgets = [left_for_pools([line], spare) for line in lines]
    else:
        left = left_for_pools(lines, spare)
        if left < sum(line.least_bytes for line in lines):
            return None
        share = share_of(wishes, share_bounds(lines, left))
        speculative = int(share * left)
        own = {Path.SPECULATIVE: speculative, Path.BASELINE: left - speculative}
        budgets = [own[line.path] for line in lines]
    if any(budget < line.least_bytes for line, budget in zip(lines, budgets, strict=True)):
        return None
    return [line.planned(budget) for line, budget in zip(lines, budgets, strict=True)]


def _narrowed(plan: Plan) -> Refusal | None:
    """SGLang runs at most half as many requests as its pool has tokens."""
    high = plan.wishes.policy_high
    if high is None or plan.placement is Placement.SINGLE:
        return None
    running = plan.engine(Path.SPECULATIVE).running
    if high <= running:
        return None
    return Refusal(Kind.LIMITS, f"policy.high {high} is above the {running} requests that the pool can run")
