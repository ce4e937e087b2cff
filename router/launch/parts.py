"""Starting only some engines of a pair, as in a container that holds one of them."""

from __future__ import annotations

from dataclasses import replace

from router.core.words import Path, Placement
from router.launch.plan import Plan, Refusal
from router.launch.request import Request


def part_of(request: Request, path: Path) -> Plan | Refusal:
    """The plan of a pair of which one engine is started here. Refusals are about this engine.

    The other engine may be up, or starting, or in a container that starts later, and the driver does not tell
    whose memory is whose there. So the plan is made for empty GPUs, and what is in use counts as the other
    engine's; the fraction then comes from what is free when this one starts.
    """
    if request.wishes.placement is not Placement.SHARED:
        return request.plan()
    empty = tuple(replace(gpu, free=gpu.total) for gpu in request.gpus)
    return replace(request, gpus=empty).plan()


def paths_of(plan: Plan, only: Path | None) -> tuple[Path, ...]:
    """Which engines are started here, in order."""
    return tuple(engine.path for engine in plan.engines if only in (None, engine.path))
