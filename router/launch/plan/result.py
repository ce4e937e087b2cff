"""What planning comes to: a plan, or a refusal with its arithmetic and what would fit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from router.core.words import Path, Placement
from router.launch.plan.footprint import Cell, Fixed
from router.launch.plan.profile import HardwareProfile, SpeculationProfile
from router.launch.plan.shapes import GpuMemory, ModelShape
from router.launch.plan.wishes import Wishes

FRACTION_STEP = 10_000
"""`--mem-fraction-static` is given with four decimals."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One engine.

    Attributes:
        gpus: indices of its GPUs.
        free: on its fullest GPU before anything is started.
        kv_bytes: what its pool (and a draft pool) may take per GPU.
        tokens: size of the pool; None for a model that must be measured.
        running: `--max-running-requests`.
        before: bytes that an engine started earlier holds on these GPUs by then, at most.
    """

    path: Path
    gpus: tuple[int, ...]
    free: int
    fixed: Fixed
    cell: Cell
    kv_bytes: int
    tokens: int | None
    running: int
    profile: SpeculationProfile
    before: int = 0

    @property
    def budget(self) -> int:
        """The part of `kv_bytes` that `--mem-fraction-static` has to cover."""
        return self.cell.pool_of(self.kv_bytes) if self.tokens is None else self.tokens * self.cell.budget

    @property
    def headroom(self) -> int:
        """What it takes after its pool is sized."""
        return self.fixed.headroom + self.kv_bytes - self.budget

    @property
    def total(self) -> int:
        """Everything it may take on one GPU."""
        return self.fixed.total + self.kv_bytes

    @property
    def fraction(self) -> float:
        """`--mem-fraction-static`; exact for an engine that starts on free GPUs, else a forecast."""
        pre = self.free - self.before - self.fixed.context
        return static_fraction(self.fixed.static + self.budget, pre, capped=self.tokens is not None)

    def longest(self, reserved: int = 0) -> int | None:
        """The longest request that fits, or None if that is to be measured."""
        return None if self.tokens is None else self.tokens - reserved


def static_fraction(static: int, pre: int, capped: bool) -> float:
    """The share of `pre` (free after context and NCCL) that weights and pool take; infinite if it is nothing.

    Rounded up where the pool is capped: `--max-total-tokens` cuts off what is too much by a ten-thousandth,
    while what is too little would make the pool smaller than planned. Rounded down where nothing caps it.
    """
    if pre <= 0:
        return float("inf")
    steps = -(-static * FRACTION_STEP // pre) if capped else static * FRACTION_STEP // pre
    return steps / FRACTION_STEP


@dataclass(frozen=True, slots=True)
class Plan:
    """Engines in the order in which they start, and what they were planned from."""

    model: ModelShape
    draft: ModelShape | None
    gpus: tuple[GpuMemory, ...]
    wishes: Wishes
    hardware: HardwareProfile
    engines: tuple[EnginePlan, ...]
    warnings: tuple[str, ...] = ()

    @property
    def placement(self) -> Placement:
        """Where the engines run."""
        return self.wishes.placement

    def engine(self, path: Path) -> EnginePlan:
        """The engine of a path. Raises KeyError if the plan has none."""
        for engine in self.engines:
            if engine.path is path:
                return engine
        raise KeyError(path)

    def spare(self, gpu: int) -> int:
        """Bytes that stay free on a GPU when every engine has taken all it may."""
        free = next(each.free for each in self.gpus if each.index == gpu)
        return free - sum(engine.total for engine in self.engines if gpu in engine.gpus)


class Kind(StrEnum):
    """What a refusal is about."""

    MEMORY = "memory"  # weights and reserves leave no, or too small, pools
    UNEVEN = "uneven"  # GPUs differ in free memory by more than SGLang accepts
    LIMITS = "limits"  # wishes that contradict each other or the model
    GPUS = "gpus"  # too few
    PROFILE = "profile"  # profile and model or placement do not go together
    FLAGS = "flags"  # additions that break the plan or do nothing


@dataclass(frozen=True, slots=True)
class Option:
    """One change that was tried. `config` is what to write; `plan` is there if it fits."""

    title: str
    config: str
    says: str
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing should be started.

    Attributes:
        arithmetic: lines that add up.
        attempt: the plan that was asked for, with the smallest pools that would do; not to be started.
        options: what would fit and what would not; the first with a plan is the recommended one.
    """

    kind: Kind
    reason: str
    arithmetic: tuple[str, ...] = ()
    attempt: Plan | None = None
    options: tuple[Option, ...] = ()

    @property
    def recommended(self) -> Option | None:
        """The first option that fits."""
        return next((option for option in self.options if option.plan), None)


@dataclass(frozen=True, slots=True)
class SecondStart:
    """What a measurement gives for an engine that starts beside another.

    `tokens` is None for a model that is measured: its pool follows from the fraction alone.
    """

    fraction: float
    max_total_tokens: int | None
    kv_bytes: int


def gib(size: int) -> str:
    """Bytes as GiB with one decimal."""
    return f"{Fraction(size, 1 << 30).__float__():.1f}"
