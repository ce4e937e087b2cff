"""Requests and cells as a measurement would have made them."""

from __future__ import annotations

from collections.abc import Sequence

from router.bench.cell import Seen
from router.bench.figures import Figures, Spread, Window, figures
from router.bench.messages import Address, Answers, Load, Sample
from router.bench.prompts import PromptSet
from router.bench.sweep import Cell, Plan
from router.bench.watch import Told

WINDOW = Window(100.0, 110.0)
ADDRESS = Address("127.0.0.1", 8000, "/v1/chat/completions", "sim")
SPREAD = Spread(0.125, 0.25, 0.5)


def sample(
    started: float,
    ended: float,
    tokens: int = 0,
    *,
    first: float | None = None,
    chunks: Sequence[float] = (),
    problem: str | None = None,
    cached: int | None = None,
    path: str | None = None,
) -> Sample:
    """A request; `first` is its first chunk if nothing else is said."""
    if first is None and chunks:
        first = chunks[0]
    return Sample(started, first, ended, 0 if problem else tokens, 30, cached, problem, list(chunks), path)


def load(slots: int = 4, rate: float = 0.0, prompts: Sequence[str] = ("a", "b", "c", "d")) -> Load:
    """A load on a server that is not there."""
    return Load(ADDRESS, list(prompts), Answers(), "seed", slots, rate)


def prompts(group: str = "open") -> PromptSet:
    """A set that asks always the same."""
    return PromptSet(group, lambda seed, count: ["Hello"] * count)


def cell(
    found: Figures | None = None,
    *,
    concurrency: int = 4,
    rate: float = 0.0,
    group: str = "open",
    repeat: int = 0,
    notes: tuple[str, ...] = (),
    problems: tuple[str, ...] = (),
) -> Cell:
    """A cell with these figures; those of a hundred good requests if none are given."""
    seen = Seen(found or good_figures(), WINDOW, 0.25, notes, problems)
    plan = Plan(0 if rate else concurrency, rate, prompts(group), repeat)
    return Cell(plan, seen, Told(2.5, 4, 3.5))


def good_figures(rate: float = 400.0) -> Figures:
    """A hundred requests that all succeeded."""
    return Figures(
        seconds=10.0,
        requests=100,
        tokens_per_second=rate,
        error=0.02,
        tokens_per_second_each=100.0,
        ttft=SPREAD,
        tpot=SPREAD,
        gap=SPREAD,
        latency=SPREAD,
        in_flight=4.0,
        speculative_share=0.5,
    )


def bad_figures(failures: dict[str, int], requests: int = 100) -> Figures:
    """So many requests of which some failed, all in one moment of the window."""
    failed = [
        sample(101.0, 102.0, problem=reason) for reason, count in failures.items() for _ in range(count)
    ]
    good = [sample(101.0, 103.0, 10, chunks=[102.0])] * (requests - len(failed))
    return figures([*failed, *good], WINDOW)
