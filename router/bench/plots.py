"""A picture of a sweep; needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path as FilePath
from typing import Any

from router.bench.figures import Figures
from router.bench.sweep import Cell
from router.plotting import figure_class

# Paul Tol's bright scheme: told apart by everybody.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")


def plot(cells: Sequence[Cell], title: str, file: FilePath) -> None:
    """Draw a sweep into a file; its suffix says the format.

    Raises:
        PlotsMissing: matplotlib is not installed.
        OSError, ValueError: the file cannot be written, or not in this format.
    """
    draw(cells, title).savefig(file, dpi=90)


def draw(cells: Sequence[Cell], title: str) -> Any:
    """Throughput, and what one user sees, by load. Bad cells are crosses. Raises PlotsMissing."""
    figure = figure_class()(figsize=(9, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    closed = [cell for cell in cells if not cell.plan.rate]
    shown = closed or list(cells)
    label = "requests in flight" if closed else "requests per second"
    drawn: list[tuple[Any, str, Callable[[Figures], float | None]]] = [
        (axes[0][0], "tokens per second, all requests", lambda found: found.tokens_per_second),
        (axes[0][1], "tokens per second, one request", lambda found: found.tokens_per_second_each),
        (axes[1][0], "TTFT, ms: median; dotted: 99th percentile", lambda found: _ms(found.ttft, "p50")),
        (axes[1][1], "TPOT, ms: median; dotted: 99th percentile", lambda found: _ms(found.tpot, "p50")),
    ]
    for place, name, value in drawn:
        _panel(place, shown, value)
        place.set_title(name, loc="left", fontsize=10)
        place.set_xlabel(label)
        _log2(place, shown)
    _crosses(axes[0][0], shown)
    for place in axes[0]:
        place.set_ylim(bottom=0)
    _tails(axes[1][0], shown, "ttft")
    _tails(axes[1][1], shown, "tpot")
    if len({cell.plan.prompts.group for cell in shown}) > 1:
        axes[0][0].legend()
    figure.suptitle(title, x=0.01, ha="left", parse_math=False)
    return figure


def _at(cell: Cell) -> float:
    return cell.plan.rate or cell.plan.concurrency


def _groups(cells: Sequence[Cell]) -> list[tuple[str, str, list[Cell]]]:
    names = list(dict.fromkeys(cell.plan.prompts.group for cell in cells))
    return [
        (name, COLOURS[index % len(COLOURS)], [cell for cell in cells if cell.plan.prompts.group == name])
        for index, name in enumerate(names)
    ]


def _panel(axes: Any, cells: Sequence[Cell], value: Callable[[Figures], float | None]) -> None:
    for name, colour, own in _groups(cells):
        good = sorted(
            (_at(cell), found)
            for cell in own
            if not cell.bad and (found := value(cell.seen.figures)) is not None
        )
        axes.plot(*_means(good), color=colour, label=name)
        axes.plot([x for x, _ in good], [y for _, y in good], "o", color=colour, markersize=4)


def _crosses(axes: Any, cells: Sequence[Cell]) -> None:
    for _, colour, own in _groups(cells):
        bad = [cell for cell in own if cell.bad]
        rates = [cell.seen.figures.tokens_per_second for cell in bad]
        axes.plot([_at(cell) for cell in bad], rates, "x", color=colour, markersize=8)


def _tails(axes: Any, cells: Sequence[Cell], name: str) -> None:
    for _, colour, own in _groups(cells):
        found = ((_at(cell), _ms(getattr(cell.seen.figures, name), "p99")) for cell in own if not cell.bad)
        axes.plot(*_means(sorted((x, y) for x, y in found if y is not None)), ":", color=colour)
    if all(cell.bad for cell in cells):
        return  # a logarithmic axis needs something to show
    axes.set_yscale("log")
    axes.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.minorticks_off()


def _means(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """The mean of the repeats at each load."""
    places = list(dict.fromkeys(x for x, _ in points))
    repeats = [[y for x, y in points if x == place] for place in places]
    return places, [sum(each) / len(each) for each in repeats]


def _log2(axes: Any, cells: Sequence[Cell]) -> None:
    places = sorted({_at(cell) for cell in cells})
    axes.set_xscale("log", base=2)
    apart = [place for index, place in enumerate(places) if not index or place >= 1.3 * places[index - 1]]
    axes.set_xticks(apart, [f"{place:g}" for place in apart])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _ms(spread: Any, place: str) -> float | None:
    return None if spread is None else 1000.0 * getattr(spread, place)
