"""A comparison as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from router.replay.compare import Row
from router.replay.figures import Estimate

_COLUMNS = (
    ("mean latency s", "latency_mean", 1.0, ".3f"),
    ("p50", "latency_p50", 1.0, ".2f"),
    ("p95", "latency_p95", 1.0, ".2f"),
    ("TTFT p99 s", "ttft_p99", 1.0, ".2f"),
    ("TPOT p50 ms", "tpot_p50", 1e3, ".2f"),
    ("p95 ms", "tpot_p95", 1e3, ".2f"),
    ("tok/s", "tokens_per_second", 1.0, ".0f"),
    ("switches", "switches", 1.0, ".1f"),
    ("mixed %", "mixed_share", 100.0, ".1f"),
    ("in SLO %", "slo", 100.0, ".1f"),
)


def as_table(rows: Sequence[Row], title: str, caption: str) -> Table:
    """A row for each contender; intervals (95 % over the seeds) beside the mean latency."""
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("served by")
    for name, *_ in _COLUMNS:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [_cell(row.figures[key], factor, form) for _, key, factor, form in _COLUMNS]
        first = row.figures["latency_mean"]
        if first.within:
            cells[0] += f" ±{first.within:.3f}"
        table.add_row(row.name, *cells)
    return table


def _cell(figure: Estimate, factor: float, form: str) -> str:
    return format(figure.mean * factor, form)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same with every figure, and the switches of each contender's first run."""
    return [
        {
            "name": row.name,
            "figures": {name: asdict(figure) for name, figure in row.figures.items()},
            "switches": [
                {
                    "at": round(switch.at, 3),
                    "to": switch.target.value,
                    "n": switch.n,
                    "inputs": switch.inputs and asdict(switch.inputs),
                }
                for switch in row.first.switches
            ],
        }
        for row in rows
    ]
