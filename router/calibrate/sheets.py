"""The tables of a result, as text: a page and a terminal show the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from router.calibrate.check import LEAST_SUCCESS
from router.calibrate.derive import AtLength, Derived
from router.calibrate.measured import Alone, Measured, Routed
from router.calibrate.result import Result
from router.calibrate.words import number, percent, rate, share
from router.config.errors import printable
from router.core.calibration import Reach, quantile
from router.core.words import Path


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table.

    Attributes:
        texts: how many of the first columns are text; the others are numbers.
        marked: rows that must not be overlooked: cells that must not be used.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1
    note: str = ""
    marked: frozenset[int] = frozenset()


def sheets(result: Result) -> tuple[Sheet, ...]:
    """All tables that have rows, what was derived before what was measured."""
    derived, measured = result.derived, result.measured
    found = [
        *(_derived(derived) if derived else ()),
        *([_routed(measured, derived)] if measured.routed else ()),
        _cells(measured),
        *([_both(measured)] if measured.both else ()),
        _drains(measured, derived),
        _key(measured),
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
                _listed(each.problems),
            )
            for each in measured.routed
        ),
    )


def _of_better(each: Routed, derived: Derived | None) -> float | None:
    return each.tokens_per_second / derived.best_alone(each.concurrency, each.group) if derived else None


def _cells(measured: Measured) -> Sheet:
    order = sorted(measured.alone, key=lambda cell: (cell.path, cell.group, cell.concurrency))
    return Sheet(
        "Every visit, each engine alone",
        (
            "engine",
            "group",
            "in flight",
            "tok/s",
            "succeeded",
            "±",
            "accept length",
            "TTFT ms",
            "TPOT ms",
            "prompt / cached / output",
            "problems and failures",
        ),
        tuple(_visit(cell) for cell in order),
        texts=2,
        note="±: half-width of the 90 % interval in the window. Times: medians. Prompt to output: tokens.",
        marked=frozenset(
            place
            for place, cell in enumerate(order)
            if cell.problems or not cell.success_rate >= LEAST_SUCCESS
        ),
    )


def _visit(cell: Alone) -> tuple[str, ...]:
    failures = tuple(f"{reason}: {count}" for reason, count in cell.failures.items())
    return (
        cell.path.value,
        printable(cell.group),
        str(cell.concurrency),
        rate(cell.tokens_per_second),
        share(cell.success_rate),
        percent(cell.spread, 1),
        number(cell.accept_length),
        number(_milliseconds(cell.ttft_p50), 1),
        number(_milliseconds(cell.tpot_p50)),
        " / ".join(
            number(count, 0) for count in (cell.prompt_tokens, cell.cached_tokens, cell.output_tokens)
        ),
        _listed((*cell.problems, *failures)),
    )


def _both(measured: Measured) -> Sheet:
    return Sheet(
        "Every visit, both at once",
        (
            "baseline",
            "speculative",
            "baseline tok/s",
            "speculative tok/s",
            "accept length",
            "drained",
            "in s",
            "problems",
        ),
        tuple(
            (
                str(each.baseline),
                str(each.speculative),
                rate(each.baseline_rate),
                rate(each.speculative_rate),
                number(each.accept_length),
                each.drained.value if each.drained else "–",
                number(each.drain_seconds, 1),
                _listed(each.problems),
            )
            for each in measured.both
        ),
        texts=0,
    )


def _drains(measured: Measured, derived: Derived | None) -> Sheet:
    rows = []
    for path in Path:
        together = [each.drain_seconds for each in measured.both if each.drained is path]
        for what, seen in (
            ("while the other one worked", together),
            ("alone", [each.drain_seconds for each in measured.of(path)]),
        ):
            found = [seconds for seconds in seen if seconds is not None]
            if found:
                row = (
                    path.value,
                    what,
                    str(len(found)),
                    *(number(quantile(found, q), 1) for q in (0.5, 0.9, 1.0)),
                )
                rows.append(row)
    dwell = f" The dwell is {derived.calibration.dwell():.3g} s." if derived else ""
    return Sheet(
        "Drains",
        ("engine", "how", "visits", "median s", "p90 s", "longest s"),
        tuple(rows),
        texts=2,
        note=f"From the last new request to the last end.{dwell}",
    )


def _key(measured: Measured) -> Sheet:
    key = measured.key
    rows = [
        ("model", key.model),
        ("draft model", key.draft),
        ("SGLang", key.engine),
        ("hash of the flags", key.flags),
        ("placement", key.placement),
        *((f"{path}: runs at a time", measured.max_running_requests.get(path)) for path in Path),
        *((f"{path}: prefill of a token, µs", _microseconds(measured, path)) for path in Path),
        ("groups", ", ".join(measured.groups)),
        ("started", measured.started),
        ("took", f"{measured.seconds / 60:.0f} min"),
        ("command", measured.command),
        *(("note", note) for note in measured.notes),
    ]
    return Sheet(
        "What was measured, and how",
        ("", ""),
        tuple((name, "not known" if value is None else printable(str(value))) for name, value in rows),
        texts=2,
    )


def _microseconds(measured: Measured, path: Path) -> str | None:
    seconds = measured.prefill_seconds_per_token.get(path)
    return None if seconds is None else f"{1e6 * seconds:.3g}"


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _listed(texts: Sequence[str]) -> str:
    return printable("; ".join(texts))


def _from_to(low: float, high: float) -> str:
    return f"{low:.2f} to {high:.2f}"
