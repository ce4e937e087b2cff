"""A result on a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from router.calibrate.derive import AtLength, Derived
from router.calibrate.result import Result
from router.calibrate.sheet import Sheet
from router.calibrate.sheets import lengths, loads, mixed
from router.calibrate.verdict import Kind
from router.config.errors import printable

_COLOURS = {Kind.REFUSED: "bold red", Kind.UNSURE: "bold yellow"}


def as_table(result: Result) -> RenderableType:
    """The verdict with its reasons, and what it rests on; a report has all of it."""
    return Group(*_parts(result))


def _parts(result: Result) -> Iterator[RenderableType]:
    verdict, derived = result.verdict, result.derived
    yield Text(printable(verdict.sentence), style=_COLOURS.get(verdict.kind, "bold"))
    for reason in verdict.reasons:
        yield Text(f"• {printable(reason)}")
    for warning in result.warnings:
        yield Text(f"! {printable(warning)}", style="yellow")
    if derived is not None:
        yield _table(loads(derived))
        yield _table(lengths(derived))
        if derived.together:
            yield _table(mixed(derived))


def _table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left", caption=sheet.note or None, caption_justify="left")
    for place, column in enumerate(sheet.columns):
        table.add_column(column, justify="left" if place < sheet.texts else "right")
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def as_json(result: Result) -> dict[str, Any]:
    """The verdict and everything derived, as plain values; every cell with its success rate."""
    return {
        "verdict": {**asdict(result.verdict), "usable": result.verdict.usable},
        "warnings": list(result.warnings),
        "cells": [
            {
                "path": cell.path.value,
                "group": cell.group,
                "concurrency": cell.concurrency,
                "tokens_per_second": cell.tokens_per_second,
                "success_rate": cell.success_rate,
                "failures": dict(cell.failures),
                "accept_length": cell.accept_length,
                "problems": list(cell.problems),
            }
            for cell in result.measured.alone
        ],
        **(_derived(result.derived) if result.derived else {}),
    }


def _derived(derived: Derived) -> dict[str, Any]:
    calibration = derived.calibration
    return {
        **_at(derived.at),
        "dwell": calibration.dwell(),
        "by_accept_length": [_at(each) for each in derived.lengths],
        "by_load": [{**asdict(load), "gain": load.gain} for load in derived.loads],
        "by_group": [
            {"group": group.name, **_at(group.at), "own_crossover": group.own.n if group.own else None}
            for group in derived.groups
        ],
        "mixed": [
            {**asdict(each.cell), "keeps": dict(each.keeps), "loss": each.loss, "extrapolated": each.beyond}
            for each in derived.together
        ],
    }


def _at(at: AtLength) -> dict[str, Any]:
    return {
        "accept_length": at.accept_length,
        "reach": at.crossover.reach.value,
        "crossover": at.crossover.n,
        "interval": asdict(at.interval),
        "high": at.band.high,
        "low": at.band.low,
        "settles_at": at.band.settles_at,
    }
