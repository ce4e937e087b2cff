"""What is measured, in which order: all of it known before the first request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from router.bench.prompts import PromptSet
from router.bench.sweep import Plan
from router.core.words import Path, Placement

# A load that counts as many for the mixed cells, where the sweep reaches so far, and its part that is few.
MANY = 32
FEW = 8


@dataclass(frozen=True, slots=True)
class Prefill:
    """How long an uncached prompt token takes."""

    path: Path

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.path}, prefill"


@dataclass(frozen=True, slots=True)
class One:
    """One engine alone."""

    path: Path
    plan: Plan

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.path}, {self.plan.name}"


@dataclass(frozen=True, slots=True)
class Two:
    """Both engines at once, and then `drained` gets no new requests while the other one goes on."""

    baseline: Plan
    speculative: Plan
    drained: Path

    def plan(self, path: Path) -> Plan:
        """What is asked of one of them."""
        return self.speculative if path is Path.SPECULATIVE else self.baseline

    @property
    def name(self) -> str:
        """For people."""
        return (
            f"both, {self.baseline.concurrency} on baseline and {self.speculative.concurrency} on speculative"
        )


@dataclass(frozen=True, slots=True)
class Through:
    """The router."""

    plan: Plan

    @property
    def name(self) -> str:
        """For people."""
        return f"router, {self.plan.name}"


Step = Prefill | One | Two


def engine_steps(
    concurrencies: Sequence[int], sets: Sequence[PromptSet], repeats: int, placement: Placement
) -> list[Step]:
    """Everything that is asked of the engines directly.

    Repeats are outermost and the two engines take turns at each load, so that what drifts (clocks, heat,
    caches) does not look like an effect of the load or the engine.
    """
    steps: list[Step] = [Prefill(path) for path in Path]
    for repeat in range(repeats):
        for prompts in sets:
            for n in concurrencies:
                steps += [One(path, Plan(n, 0.0, prompts, repeat)) for path in Path]
        if placement is Placement.SHARED:
            steps += _mixed(concurrencies, sets[0], repeat)
    return steps


def _mixed(concurrencies: Sequence[int], prompts: PromptSet, repeat: int) -> list[Step]:
    """Few and many both ways, and many on both; each engine is the one that drains as often as the other."""
    many = max((n for n in concurrencies if n <= MANY), default=min(concurrencies))
    few = max((n for n in concurrencies if n <= max(1, many // FEW)), default=min(concurrencies))
    loads = [(many, few, Path.SPECULATIVE), (few, many, Path.BASELINE)]
    loads += [(many, many, Path.SPECULATIVE if repeat % 2 else Path.BASELINE)]
    return [
        Two(Plan(base, 0.0, prompts, repeat), Plan(spec, 0.0, prompts, repeat), drained)
        for base, spec, drained in loads
    ]


def router_steps(concurrencies: Sequence[int], prompts: PromptSet) -> list[Through]:
    """The same loads through the router, rising, so that it changes its path once."""
    return [Through(Plan(n, 0.0, prompts)) for n in sorted(concurrencies)]


def seconds_at_least(steps: Sequence[Step | Through], window: float, warm_up: float) -> float:
    """How long the steps take at the least: drains come on top."""
    return sum(window + warm_up for step in steps if not isinstance(step, Prefill))
