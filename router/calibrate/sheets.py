"""The tables of a result, as text: a page and a terminal show the same."""

from __future__ import annotations

from collections.abc import Iterator

from router.calibrate.derive import AtLength, Derived
from router.calibrate.measured import Measured, Routed
from router.calibrate.result import Result
from router.calibrate.sheet import Sheet
from router.calibrate.visits import both, cells, drains, key, listed
from router.calibrate.words import number, percent, rate, share
from router.config.errors import printable
from router.core.calibration import Reach
from router.core.words import Path


def sheets(result: Result) -> tuple[Sheet, ...]:
    """All tables that have rows, what was derived before what was measured."""
    derived, measured = result.derived, result.measured
    found = [
        *(_derived(derived) if derived else ()),
        *([_routed(measured, derived)] if measured.routed else ()),
        cells(measured),
        *([both(measured)] if measured.both else ()),
        drains(measured, derived),
        key(measured),
    ]
    return tuple(sheet for sheet in found if sheet.rows)


def _derived(derived: Derived) -> Iterator[Sheet]:
    yield loads(derived)
    yield lengths(derived)
    if len(derived.groups) > 1:
        yield _groups(derived)
    if derived.together:
        yield mixed(derived)


def loads(derived: Derived) -> Sheet:
    """Both engines by load."""
    length = derived.at.accept_length
    return Sheet(
        f"By load, at accept length {length:.2f}",
        ("in flight", "speculation", "speculative tok/s", "baseline tok/s", "break-even", "90 % interval"),
        tuple(
            (
                str(load.n),
                percent(load.gain, sign=True),
                rate(load.speculative),
                rate(load.baseline),
                number(load.break_even),
                _from_to(*load.break_even_within),
            )
            for load in derived.loads
        ),
        texts=0,
        note="As fitted to all visits. Break-even: the accept length at which both are equally fast.",
    )


def lengths(derived: Derived) -> Sheet:
    """Crossovers by accept length; the one of the sweep is marked."""
    limit = derived.calibration.limit
    found = sorted((*derived.lengths, derived.at), key=lambda each: each.accept_length)
    return Sheet(
        "By accept length",
        ("accept length", "crossover", "90 % interval", "high", "low"),
        tuple(
            (
                f"{'▶ ' if each is derived.at else ''}{each.accept_length:.4g}",
                *_crossover(each, limit),
            )
            for each in found
        ),
        texts=0,
        note=f"In requests in flight; ▶ that of the sweep. {limit} is the largest load that was measured.",
    )


def _crossover(each: AtLength, limit: int) -> tuple[str, str, str, str]:
    shown = {Reach.NONE: "nowhere", Reach.ALWAYS: f"{limit} or more"}
    crossover = shown.get(each.crossover.reach, number(each.crossover.n, 1))
    low, high = each.interval.low, each.interval.high
    bounds = [
        "nowhere" if n <= 0 else f"{limit} or more" if n >= limit else number(n, 1) for n in (low, high)
    ]
    within = bounds[0] if bounds[0] == bounds[1] else " to ".join(bounds)
    return crossover, within, number(each.band.high, 1), number(each.band.low, 1)


def _groups(derived: Derived) -> Sheet:
    limit = derived.calibration.limit
    return Sheet(
        "By group of requests",
        ("group", "accept length", "crossover", "90 % interval", "by its own cells alone"),
        tuple(
            (
                printable(group.name),
                number(group.at.accept_length),
                *_crossover(group.at, limit)[:2],
                "–" if group.own is None else number(group.own.n, 1),
            )
            for group in derived.groups
        ),
        note="Crossover: by the cells of all groups, at the group's accept length.",
    )


def mixed(derived: Derived) -> Sheet:
    """What working together costs."""
    beyond = any(each.beyond for each in derived.together)
    return Sheet(
        "Both at once against either alone",
        (
            "baseline + speculative",
            "baseline keeps",
            "speculative keeps",
            "sum tok/s",
            "better alone",
            "sum loses",
        ),
        tuple(
            (
                f"{each.cell.baseline} + {each.cell.speculative}",
                percent(each.keeps[Path.BASELINE]),
                percent(each.keeps[Path.SPECULATIVE]),
                rate(each.total),
                rate(max(each.alone.values())) + ("*" if each.beyond else ""),
                percent(each.loss),
            )
            for each in derived.together
        ),
        note="Alone: at as many requests as both have." + (" * extrapolated." if beyond else ""),
    )


def _routed(measured: Measured, derived: Derived | None) -> Sheet:
    return Sheet(
        "Through the router",
        ("group", "in flight", "tok/s", "succeeded", "of the better engine alone", "speculative", "problems"),
        tuple(
            (
                printable(each.group),
                str(each.concurrency),
                rate(each.tokens_per_second),
                share(each.success_rate),
                percent(_of_better(each, derived)),
                percent(each.speculative_share),
                listed(each.problems),
            )
            for each in measured.routed
        ),
    )


def _of_better(each: Routed, derived: Derived | None) -> float | None:
    return each.tokens_per_second / derived.best_alone(each.concurrency, each.group) if derived else None


def _from_to(low: float, high: float) -> str:
    return f"{low:.2f} to {high:.2f}"
