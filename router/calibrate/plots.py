"""The plots of a report as SVG; needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from router.calibrate.derive import AtLength, Derived
from router.calibrate.ink import AREA, COLOUR, DIM, LINE, MARK, MARKER, TEXT, label, style, svg
from router.calibrate.measured import Measured
from router.core.calibration import Crossover, Reach
from router.core.words import Path
from router.plotting import figure_class

# Inches; a phone shows 340 of these 374 points.
_WIDE, _HIGH = 5.2, 3.9
_POINTS = 80
_MOST_GROUPS = 4
_MOST_MIXED = 12
# Where "nowhere" stands on a logarithmic axis that begins at one request.
_NOWHERE = 0.6


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture: what it is called, what to read from it, and its SVG."""

    title: str
    caption: str
    svg: str


def plots(measured: Measured, derived: Derived) -> tuple[Plot, ...]:
    """All pictures.

    Raises:
        PlotsMissing: matplotlib is not installed.
    """
    figure = figure_class()
    drawn = [
        _plot(figure, "rates", "Throughput by load", _caption(derived), _rates(measured, derived)),
        _plot(
            figure,
            "even",
            "Break-even accept length by load",
            "Speculation pays where the accept length (horizontal) is above the curve. Bars: 90 % interval.",
            lambda axes: _break_even(axes, derived),
        ),
        _plot(
            figure,
            "lengths",
            "Crossover by accept length",
            "The load up to which speculation pays, and its 90 % interval.",
            lambda axes: _lengths(axes, derived),
        ),
    ]
    if derived.together:
        caption = (
            "100 % is what the better engine alone gives at as many requests; | is the other engine alone. "
            "In the bars: the share of its own speed that each keeps."
        )
        rows = min(len(derived.together), _MOST_MIXED)
        drawn.append(
            _plot(
                figure,
                "mixed",
                "Both engines at once",
                caption,
                lambda axes: _mixed(axes, derived),
                1.5 + 0.42 * rows,
            )
        )
    return tuple(drawn)


def _plot(
    figure: Any, name: str, title: str, caption: str, draw: Callable[[Any], None], high: float = _HIGH
) -> Plot:
    with style():
        made = figure(figsize=(_WIDE, high), layout="constrained")
        draw(made.subplots())
        made.legend(loc="outside upper left", ncols=2)
        return Plot(title, caption, svg(made, name, f"{title}. {caption}"))


def _caption(derived: Derived) -> str:
    length = derived.at.accept_length
    return (
        f"Lines: fitted, at accept length {length:.2f}. Points: every visit, at its own accept length, "
        "and the 90 % interval of its window. Both axes are logarithmic."
    )


def _rates(measured: Measured, derived: Derived) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        calibration = derived.calibration
        loads = _spaced(calibration.limit)
        _marks(axes, derived)
        for path in (Path.BASELINE, Path.SPECULATIVE):
            rates = [calibration.tokens_per_second(path, n) for n in loads]
            axes.plot(loads, rates, color=COLOUR[path], linestyle=LINE[path], label=path.value)
            cells = measured.of(path)
            axes.errorbar(
                [cell.concurrency for cell in cells],
                [cell.tokens_per_second for cell in cells],
                yerr=[cell.tokens_per_second * cell.spread for cell in cells],
                color=COLOUR[path],
                marker=MARKER[path],
                markersize=4.5,
                linestyle="none",
                elinewidth=1,
                capsize=2,
            )
        if measured.routed:
            places = [each.concurrency for each in measured.routed]
            rates = [each.tokens_per_second for each in measured.routed]
            axes.plot(
                places,
                rates,
                "D",
                color=TEXT,
                markersize=6,
                fillstyle="none",
                zorder=5,
                label="through the router",
            )
        axes.set_yscale("log", base=2)
        _ticks(axes.yaxis, _rate_ticks(*axes.get_ylim()))
        _by_load(axes, sorted({cell.concurrency for cell in measured.alone}), calibration.limit)
        axes.set_ylabel("output tokens per second")

    return draw


def _marks(axes: Any, derived: Derived) -> None:
    """The crossover with its interval, and the band."""
    at, limit = derived.at, derived.calibration.limit
    if at.crossover.reach is not Reach.PART:
        return
    marks = at.band
    if marks.low is not None and marks.high is not None:
        axes.axvspan(marks.low, marks.high, color=AREA, alpha=0.16, linewidth=0, label="band")
    low, high = max(0.5, at.interval.low), min(limit, at.interval.high)
    axes.axvspan(low, high, color=MARK, alpha=0.22, linewidth=0, label="90 % interval")
    axes.axvline(at.crossover.n, color=MARK, linewidth=1.4, label=f"crossover {at.crossover.n:.3g}")


def _break_even(axes: Any, derived: Derived) -> None:
    calibration, at = derived.calibration, derived.at
    loads = _spaced(calibration.limit)
    axes.plot(loads, [calibration.break_even_at(n) for n in loads], color=TEXT, label="break-even")
    axes.errorbar(
        [load.n for load in derived.loads],
        [sum(load.break_even_within) / 2 for load in derived.loads],
        yerr=[(high - low) / 2 for low, high in (load.break_even_within for load in derived.loads)],
        color=TEXT,
        linestyle="none",
        elinewidth=1.2,
        capsize=3,
    )
    axes.axhline(
        at.accept_length, color=COLOUR[Path.SPECULATIVE], label=f"accept length {at.accept_length:.2f}"
    )
    if len(derived.groups) > 1:
        for group, line in zip(derived.groups[:_MOST_GROUPS], (":", "--", "-.", (0, (8, 3))), strict=False):
            length = group.at.accept_length
            axes.axhline(
                length, color=DIM, linestyle=line, linewidth=1.3, label=f"{label(group.name)} {length:.2f}"
            )
    _by_load(axes, [load.n for load in derived.loads], calibration.limit)
    axes.set_ylabel("accept length, tokens per cycle")


def _lengths(axes: Any, derived: Derived) -> None:
    at, limit = derived.at, derived.calibration.limit
    lengths = [each.accept_length for each in derived.lengths]

    def place(n: float) -> float:
        return n if n > 0 else _NOWHERE

    axes.fill_between(
        lengths,
        [place(each.interval.low) for each in derived.lengths],
        [place(each.interval.high) for each in derived.lengths],
        color=MARK,
        alpha=0.2,
        linewidth=0,
        label="90 % interval",
    )
    axes.plot(lengths, [_shown(each.crossover) for each in derived.lengths], color=MARK, label="crossover")
    axes.axvline(
        at.accept_length, color=COLOUR[Path.SPECULATIVE], label=f"accept length {at.accept_length:.2f}"
    )
    _point(axes, at)
    axes.set_yscale("log", base=2)
    powers = [2**power for power in range(limit.bit_length()) if 2**power < limit / 1.3]
    _ticks(axes.yaxis, [_NOWHERE, *powers, limit], ["nowhere", *map(str, powers), f"{limit} or more"])
    axes.set_ylim(_NOWHERE * 0.85, limit * 1.15)
    axes.set_xlim(lengths[0], lengths[-1])
    axes.set_xlabel("accept length, tokens per cycle")
    axes.set_ylabel("crossover, requests in flight")


def _shown(crossover: Crossover) -> float:
    return _NOWHERE if crossover.reach is Reach.NONE else crossover.n


def _point(axes: Any, at: AtLength) -> None:
    axes.plot([at.accept_length], [_shown(at.crossover)], "o", color=COLOUR[Path.SPECULATIVE], markersize=5)


def _mixed(axes: Any, derived: Derived) -> None:
    shown = derived.together[:_MOST_MIXED]
    names = [f"{each.cell.baseline} + {each.cell.speculative}" for each in shown]
    places = range(len(shown))
    starts = [0.0] * len(shown)
    for path in (Path.BASELINE, Path.SPECULATIVE):
        rates = [
            each.cell.baseline_rate if path is Path.BASELINE else each.cell.speculative_rate for each in shown
        ]
        widths = [100 * rate / max(each.alone.values()) for rate, each in zip(rates, shown, strict=True)]
        axes.barh(
            places, widths, left=starts, color=COLOUR[path], alpha=0.4, height=0.62, label=f"{path} gives"
        )
        for at, (start, width, each) in enumerate(zip(starts, widths, shown, strict=True)):
            axes.text(
                start + width / 2, at, f"{100 * each.keeps[path]:.0f} %", ha="center", va="center", fontsize=9
            )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    others = [100 * min(each.alone.values()) / max(each.alone.values()) for each in shown]
    axes.plot(
        others, places, "|", color=TEXT, markersize=13, markeredgewidth=1.6, label="the other one alone"
    )
    axes.axvline(100, color=TEXT, linewidth=1.4, label="the better one alone")
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(105.0, *(start + 3 for start in starts)))
    axes.set_xlabel("% of the better engine alone")
    axes.set_ylabel("baseline + speculative")


def _by_load(axes: Any, sizes: Sequence[int], limit: int) -> None:
    """A logarithmic axis of loads with the measured ones as ticks, or powers of two where they are many."""
    axes.set_xscale("log", base=2)
    apart = all(b >= 1.5 * a for a, b in pairwise(sizes))
    wanted = sizes if apart and len(sizes) <= 10 else [2**power for power in range(limit.bit_length())]
    _ticks(axes.xaxis, [float(n) for n in wanted])
    axes.set_xlim(0.85, max(limit, *wanted) * 1.18)
    axes.set_xlabel("requests in flight")


def _rate_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 and their tens between two rates; without the fives where that would be many."""
    tens = [10.0**power for power in range(-2, 8)]
    found = [digit * ten for ten in tens for digit in (1, 2, 5) if low <= digit * ten <= high]
    return found if len(found) <= 9 else [ten for ten in tens if low <= ten <= high]


def _ticks(axis: Any, places: Sequence[float], names: Sequence[str] | None = None) -> None:
    axis.set_ticks(
        list(places),
        list(names) if names else [f"{place:,.4g}" if place < 1e4 else f"{place:,.0f}" for place in places],
    )
    axis.set_ticks([], minor=True)


def _spaced(limit: int) -> list[float]:
    """Loads from 1 to the limit, evenly spaced on a logarithmic axis."""
    return [limit ** (place / (_POINTS - 1)) for place in range(_POINTS)]
