"""The sums of a refusal, in words. Per GPU, on the fullest one."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

from router.core.words import Placement
from router.launch.plan.result import gib
from router.launch.plan.shapes import ModelShape, least_free
from router.launch.plan.split import Outline, left_for_pools, share_bounds
from router.launch.plan.wishes import Wishes


def memory_reason(lines: Sequence[Outline], wishes: Wishes) -> str:
    """One sentence: what does not fit."""
    shared = wishes.placement is Placement.SHARED
    groups = [lines] if shared else [[line] for line in lines]
    for group in groups:
        free = least_free(group[0].gpus)
        who = "both engines" if len(group) > 1 else f"the {group[0].path.value} engine"
        weights = sum(line.fixed.weights + line.fixed.draft for line in group)
        if weights >= free:
            one = gib(group[0].fixed.weights)
            what = f"two copies of {one} GiB each" if len(group) > 1 else f"weights of {one} GiB"
            sum_text = (
                f", {gib(weights)} GiB with the draft," if any(line.fixed.draft for line in group) else ""
            )
            return (
                f"{what}{sum_text} do not fit into the {gib(free)} GiB free on a GPU: "
                "impossible with any KV pool"
            )
        left = left_for_pools(group, wishes.reserves.spare)
        if left < 0:
            return f"{who} with reserves take {gib(-left)} GiB more than the {gib(free)} GiB free on a GPU"
        need = sum(line.least_bytes for line in group)
        if left < need:
            return (
                f"{gib(left)} GiB are left for KV on a GPU, but one request of {wishes.context} tokens needs "
                f"{gib(need)} on {who}"
            )
    return _share_reason(lines, wishes)


def _share_reason(lines: Sequence[Outline], wishes: Wishes) -> str:
    low, high = share_bounds(lines, left_for_pools(lines, wishes.reserves.spare))
    return (
        f"with kv_share {wishes.kv_share} one pool is too small for a request of {wishes.context} tokens; "
        f"allowed: {ceil(low * 100) / 100:.2f} to {floor(high * 100) / 100:.2f}"
    )


def memory_lines(lines: Sequence[Outline], model: ModelShape, wishes: Wishes) -> tuple[str, ...]:
    """What each engine needs at least, line by line, with the sum and what there is."""
    found = []
    shared = wishes.placement is Placement.SHARED
    total = 0
    for line in lines:
        own = line.fixed
        need = own.total + line.least_bytes
        total += need
        parts = [
            ("context + NCCL", own.context),
            ("weights", own.weights),
            ("draft", own.draft),
            ("feature cache", own.features),
            ("graphs", own.graphs),
            ("activations", own.activations),
            ("request table", own.table),
            ("workspace", own.workspace),
            (f"KV of {line.least_tokens} tokens" if not line.measured else "KV at least", line.least_bytes),
        ]
        found.append(
            f"{line.path.value}: " + " + ".join(f"{what} {gib(size)}" for what, size in parts if size)
        )
        found.append(f"  = {gib(need)} GiB of {gib(least_free(line.gpus))} free")
    if shared:
        free = gib(least_free(lines[0].gpus))
        found.append(f"both: {gib(total)} + spare {gib(wishes.reserves.spare)} GiB of {free}")
    stored, loaded = gib(model.weight_bytes), gib(lines[0].fixed.weights)
    found.append(f"weights: {stored} GiB stored x 1.04 / tp {wishes.tp} = {loaded} GiB per GPU")
    return tuple(found)
