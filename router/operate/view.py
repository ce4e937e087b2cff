"""A router's status as a rich renderable; the same facts as on the live page."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

SWITCHES = 8


def status_screen(status: dict[str, Any]) -> RenderableType:
    """The answer of `GET /admin/status`, for a terminal."""
    pair = status["pairs"][0]
    lines = [Text(pair["why"], style="bold")]
    if pair["pin"]:
        left = pair["pin"]["seconds_left"]
        until = "until unpinned" if left is None else f"for another {left:.0f} s"
        pinned = f"pinned to {pair['pin']['path']} {until}: {pair['pin']['reason']}"
        lines.append(Text(pinned, style="yellow"))
    lines += [Text(problem["text"], style="red") for problem in pair["problems"]]
    policy = pair["policy"]
    bounds = f" (high {policy['high']}, low {policy['low']})" if policy.get("high") else ""
    lines.append(
        Text(
            f"{pair['n']} in flight{bounds}, {pair['queued']} of them in the queue; mixed for "
            f"{pair['mixed_seconds']:.0f} s in all; version {status['version']}"
            + (", draining" if status["draining"] else "")
        )
    )
    return Group(*lines, _paths(pair), _switches(pair))


def _paths(pair: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("path", "in flight", "tok/s", "TTFT p50", "p99", "accept", "engine"):
        table.add_column(title, justify="left" if title in ("path", "engine") else "right")
    for name, path in pair["paths"].items():
        state = "drained" if path["drained"] else "up" if path["up"] else f"down, breaker {path['breaker']}"
        mark = "▶ " if name == pair["active_path"] else "  "
        table.add_row(
            mark + name,
            str(path["active"]),
            _number(path["tokens_per_second"], 0),
            _number(path["ttft_p50"], 3),
            _number(path["ttft_p99"], 3),
            _number(path["accept_length"], 2),
            Text(state, style="green" if state == "up" else "red"),
        )
    return table


def _switches(pair: dict[str, Any]) -> RenderableType:
    if not pair["switches"]:
        return Text("no switch yet", style="dim")
    table = Table(box=None, pad_edge=False, show_header=False)
    for switch in pair["switches"][-SWITCHES:][::-1]:
        at = time.strftime("%H:%M:%S", time.localtime(switch["at"]))
        table.add_row(at, f"{switch['from']} → {switch['to']}", switch["why"])
    return table


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
