"""A sweep as a table, as JSON and as CSV: a success rate beside every figure, none where too much failed."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from rich.table import Table

from router.bench.figures import Spread
from router.bench.sweep import Cell

Value = str | int | float | bool | None | dict[str, int] | list[str]
_TIMES = ("ttft", "tpot", "gap", "latency")


def row(cell: Cell) -> dict[str, Value]:
    """A cell as flat values; times in seconds, throughput in tokens per second."""
    plan, seen, found, told = cell.plan, cell.seen, cell.seen.figures, cell.told
    values: dict[str, Value] = {
        "concurrency": plan.concurrency or None,
        "rate": plan.rate or None,
        "group": plan.prompts.group,
        "repeat": plan.repeat,
        "good": not cell.bad,
        "requests": found.requests,
        "success_rate": found.success_rate,
        "failures": dict(found.failures),
        "tokens_per_second": found.tokens_per_second,
        "tokens_per_second_error": found.error,
        "tokens_per_second_each": found.tokens_per_second_each,
        "requests_per_second": found.requests_per_second,
        "in_flight": found.in_flight,
        "speculative_share": found.speculative_share,
        "accept_length": told.accept_length,
        "engine_running": told.running,
        "prompt_tokens": found.prompt_tokens,
        "cached_tokens": found.cached_tokens,
        "output_tokens": found.output_tokens,
        "seconds": found.seconds,
        "drain_seconds": found.drain_seconds,
        "client_busy": seen.client_busy,
        "client_late": seen.client_late,
        "notes": list(seen.notes),
        "problems": list(seen.problems),
    }
    for name in _TIMES:
        spread: Spread | None = getattr(found, name)
        for place in ("p50", "p90", "p99"):
            values[f"{name}_{place}"] = getattr(spread, place) if spread else None
    return values


def as_csv(cells: Sequence[Cell]) -> str:
    """One line a cell; lists and mappings as words separated by semicolons."""
    out = io.StringIO()
    rows = [row(cell) for cell in cells]
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    for values in rows:
        writer.writerow({name: _flat(value) for name, value in values.items()})
    return out.getvalue()


def _flat(value: Value) -> object:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {count}" for name, count in value.items())
    return "; ".join(value) if isinstance(value, list) else value


def as_table(cells: Sequence[Cell], title: str) -> Table:
    """For a terminal."""
    table = Table(title=title, title_justify="left", caption=_caption(cells), caption_justify="left")
    table.add_column("load")
    for name in ("success", "tok/s", "±", "tok/s each", "TTFT p50 / p99 ms", "TPOT p50 / p99 ms"):
        table.add_column(name, justify="right")
    for name in ("latency p50 s", "in flight", "accept", "client"):
        table.add_column(name, justify="right")
    for cell in cells:
        table.add_row(*_cells(cell), style="red" if cell.bad else None)
    return table


def _cells(cell: Cell) -> list[str]:
    found, told = cell.seen.figures, cell.told
    return [
        cell.plan.name,
        percent(found.success_rate),
        f"{found.tokens_per_second:,.1f}",
        "" if found.error is None else f"{found.error:.1%}",
        _number(found.tokens_per_second_each),
        _pair(found.ttft),
        _pair(found.tpot),
        "–" if found.latency is None else f"{found.latency.p50:.2f}",
        f"{found.in_flight:.1f}",
        "–" if told.accept_length is None else f"{told.accept_length:.2f}",
        f"{cell.seen.client_busy:.0%}",
    ]


def _caption(cells: Sequence[Cell]) -> str:
    said = [
        "± is the half-width of the 90 % interval; – is not known, or not told because requests failed;",
        "client is the share of a core that the busiest client process took.",
    ]
    said += [f"{cell.plan.name}: {text}" for cell in cells for text in remarks(cell)]
    return "\n".join(said)


def remarks(cell: Cell) -> list[str]:
    """What a reader must know of a cell, the bad first."""
    found = cell.seen.figures
    failed = (
        [f"{found.failed} of {found.requests} failed ({reasons(found.failures)})"] if found.failed else []
    )
    if not found.requests:
        failed = ["nothing came"]
    return [*failed, *cell.seen.problems, *cell.seen.notes]


def reasons(failures: Mapping[str, int]) -> str:
    """Failures by reason, the commonest first."""
    ordered = sorted(failures.items(), key=lambda each: -each[1])
    return ", ".join(f"{name}: {count}" for name, count in ordered)


def percent(share: float) -> str:
    """Rounded down to a tenth, so that one failure in ten thousand is no 100 %."""
    return f"{int(share * 1000 + 1e-9) / 10:g} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _pair(spread: Spread | None) -> str:
    return "–" if spread is None else f"{spread.p50 * 1000:.1f} / {spread.p99 * 1000:.1f}"
