"""How free memory becomes the pools of one or two engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from router.core.words import Path, Placement
from router.launch.plan.footprint import Cell, Fixed, cell, fixed
from router.launch.plan.profile import SpeculationProfile
from router.launch.plan.result import EnginePlan
from router.launch.plan.shapes import GIB, GpuMemory, ModelShape, least_free
from router.launch.plan.wishes import Wishes

PAGE = 256
"""Pools are whole multiples, so that no page size of an attention backend cuts them."""

LEAST_MEASURED_POOL = GIB
"""For a model whose bytes per token are unknown."""


@dataclass(frozen=True, slots=True)
class Outline:
    """An engine before it has a pool."""

    path: Path
    gpus: tuple[GpuMemory, ...]
    fixed: Fixed
    cell: Cell
    running: int
    profile: SpeculationProfile
    measured: bool
    context: int

    @property
    def least_tokens(self) -> int:
        """A smaller pool would silently shorten the longest request."""
        return pages_up(self.context)

    @property
    def least_bytes(self) -> int:
        """The smallest pool that does."""
        return LEAST_MEASURED_POOL if self.measured else self.least_tokens * self.cell.total

    def planned(self, kv_bytes: int, before: int = 0) -> EnginePlan:
        """With a pool of that many bytes, or a page less."""
        tokens = None if self.measured else kv_bytes // self.cell.total // PAGE * PAGE
        return EnginePlan(
            path=self.path,
            gpus=tuple(gpu.index for gpu in self.gpus),
            free=least_free(self.gpus),
            fixed=self.fixed,
            cell=self.cell,
            kv_bytes=kv_bytes if tokens is None else tokens * self.cell.total,
            tokens=tokens,
            running=self.running if tokens is None else max(1, min(self.running, tokens // 2)),
            profile=self.profile,
            before=before,
        )


def outlines(
    model: ModelShape,
    draft: ModelShape | None,
    pools: Sequence[tuple[Path, tuple[GpuMemory, ...]]],
    wishes: Wishes,
    profile: SpeculationProfile,
) -> list[Outline]:
    """The engines of a placement, in starting order, without pools."""
    found = []
    for path, gpus in pools:
        speculates = path is Path.SPECULATIVE
        own = profile if speculates or wishes.placement is Placement.SINGLE else BASELINE
        own_draft = draft if own.draft_model else None
        drafting = own_draft if own.algorithm and own.algorithm.startswith("EAGLE") else None
        running = _running(path, wishes)
        total = min(gpu.total for gpu in gpus)
        found.append(
            Outline(
                path=path,
                gpus=gpus,
                fixed=fixed(path, model, own_draft, own, wishes, running, total),
                cell=cell(model, drafting, wishes),
                running=running,
                profile=own,
                measured=model.measured is not None and wishes.kv_cell is None,
                context=wishes.context,
            )
        )
    return found


BASELINE = SpeculationProfile("baseline", "no speculation")


def _running(path: Path, wishes: Wishes) -> int:
    if wishes.placement is Placement.SINGLE:
        return max(wishes.concurrency.speculative, wishes.concurrency.baseline)
    return wishes.concurrency[path]


def left_for_pools(engines: Sequence[Outline], spare: int) -> int:
    """Bytes for all pools of engines on the same GPUs; negative if they do not even fit without."""
    return least_free(engines[0].gpus) - spare - sum(engine.fixed.total for engine in engines)


def share_bounds(engines: Sequence[Outline], left: int) -> tuple[Fraction, Fraction]:
    """The least and the largest share of the speculative engine with which both pools do."""
    needs = {engine.path: engine.least_bytes for engine in engines}
    return Fraction(needs[Path.SPECULATIVE], left), 1 - Fraction(needs[Path.BASELINE], left)


def share_of(wishes: Wishes, bounds: tuple[Fraction, Fraction]) -> Fraction:
    """The share that was wished, or one by concurrency that both pools can live with."""
    if wishes.kv_share is not None:
        return Fraction(wishes.kv_share).limit_denominator(1000)
    wanted = wishes.concurrency
    proportional = Fraction(wanted.speculative, wanted.speculative + wanted.baseline)
    return min(max(proportional, bounds[0]), bounds[1])


def in_order(engines: Iterable[EnginePlan], shared: bool) -> tuple[EnginePlan, ...]:
    """The engines with what those before them hold, where they share GPUs."""
    before, found = 0, []
    for engine in engines:
        found.append(replace(engine, before=before if shared else 0))
        before += engine.total
    return tuple(found)


def pages_up(tokens: int) -> int:
    """The next multiple of a page."""
    return -(-tokens // PAGE) * PAGE
