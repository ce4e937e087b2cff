"""GPU memory as measured: when it stands still, whose it is, and whether it is what was planned. Bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from router.core.words import Path
from router.launch.plan import EnginePlan, GpuMemory, SecondStart
from router.launch.plan.footprint import WEIGHT_OVERHEAD
from router.launch.plan.result import gib
from router.launch.plan.shapes import GIB, MIB

STILL = 64 * MIB
"""A change below this is none."""

TOLERANCE = GIB
"""By how much an engine may miss its plan."""

POOL_TOLERANCE = 0.05
"""Of the tokens, where the engine sizes its pool by itself."""


class Stillness:
    """Knows when the memory in use has not changed for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0
        self._level: Mapping[int, int] | None = None

    def add(self, now: float, used: Mapping[int, int]) -> bool:
        """One look, bytes in use by GPU. Slow growth is change too: looks are compared with the first."""
        level = self._level
        if level is None or any(abs(size - level.get(index, 0)) >= STILL for index, size in used.items()):
            self._level, self._since = used, now
            return False
        return now - self._since >= self._seconds


def free_on(gpus: Collection[GpuMemory], indices: Collection[int]) -> dict[int, int]:
    """Free bytes by GPU."""
    return {gpu.index: gpu.free for gpu in gpus if gpu.index in indices}


def used_on(gpus: Collection[GpuMemory], indices: Collection[int]) -> dict[int, int]:
    """Bytes in use by GPU, whoever uses them."""
    return {gpu.index: gpu.total - gpu.free for gpu in gpus if gpu.index in indices}


def used_by(
    gpus: Collection[GpuMemory], pids: Collection[int], indices: Collection[int]
) -> dict[int, int] | None:
    """Bytes that these processes hold on each GPU, or None if the driver does not tell for one of the GPUs.

    Inside a container the driver speaks of the host's process ids, or of none.
    """
    found = {
        gpu.index: sum(each.used for each in gpu.processes if each.pid in pids)
        for gpu in gpus
        if gpu.index in indices
    }
    return found if found and all(found.values()) else None


def as_started(engine: EnginePlan, start: SecondStart) -> EnginePlan:
    """The engine with the pool that it was really started with."""
    return replace(engine, kv_bytes=start.kv_bytes, tokens=start.max_total_tokens)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One engine after its burn-in.

    Attributes:
        used: what it holds on each of its GPUs.
        free: what is free there.
        tokens: size of its pool as it reports it; None if it did not say.
        problems: where that is not what was planned.
        short: less is free than the reserve.
    """

    path: Path
    used: Mapping[int, int]
    free: Mapping[int, int]
    tokens: int | None
    problems: tuple[str, ...]
    short: bool


def verify(
    engine: EnginePlan,
    used: Mapping[int, int],
    free: Mapping[int, int],
    reserve: int,
    tokens: int | None,
    capped: bool,
) -> Verdict:
    """Compare what an engine took with its plan.

    The plan is exact about weights and pool, and has upper bounds for the rest. So an engine must hold at
    least the former and at most both, give or take `TOLERANCE`.
    """
    slack = 0 if capped else int(POOL_TOLERANCE * engine.kv_bytes)
    loaded = int((engine.fixed.weights + engine.fixed.draft) / WEIGHT_OVERHEAD)
    least = loaded + engine.kv_bytes - slack - TOLERANCE
    most = engine.total + slack + TOLERANCE
    problems = [
        f"GPU {index}: it holds {gib(size)} GiB, planned were {gib(least + TOLERANCE)} to "
        f"{gib(most - TOLERANCE)}, give or take {gib(TOLERANCE)}"
        for index, size in used.items()
        if not least <= size <= most
    ]
    short = [index for index, size in free.items() if size < reserve]
    problems += [
        f"GPU {index}: {gib(free[index])} GiB are free, less than the reserve of {gib(reserve)}"
        for index in short
    ]
    if tokens is not None and engine.tokens is not None and _misses(tokens, engine.tokens, capped):
        problems.append(f"its pool has {tokens} tokens, planned were {engine.tokens}")
    return Verdict(engine.path, dict(used), dict(free), tokens, tuple(problems), bool(short))


def _misses(tokens: int, planned: int, capped: bool) -> bool:
    # Up to a page below the cap is the engine's rounding.
    tolerance = 0.02 if capped else POOL_TOLERANCE
    return abs(tokens - planned) > tolerance * planned
