"""`spec-router bench`: what an endpoint gives at which load."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

import httpx
from rich.console import Console

from router.bench.cell import Pace
from router.bench.crew import ClientDied, Crew
from router.bench.messages import Address, Answers
from router.bench.plots import plot
from router.bench.prompts import PromptSet, chosen, prompt_sets, together
from router.bench.report import as_csv, as_table, percent, remarks, row
from router.bench.sweep import Cell, Plan, plans, sweep, unless
from router.bench.target import BadTarget, Unreachable, base_url, find_address
from router.bench.watch import Watch
from router.cli.progress import measuring_progress
from router.cli.signals import Signals
from router.cli.targets import KEY_VARIABLE, BadInput
from router.plotting import PlotsMissing, figure_class
from router.prompt_file import PromptsError

BAD, WRONG, UNREACHABLE, INTERRUPTED = 1, 2, 4, 130
MOST = 100_000
PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What the command line said; see its help."""

    url: str
    concurrencies: tuple[int, ...]
    rates: tuple[float, ...]
    pace: Pace
    repeats: int
    prompts: str
    groups: tuple[str, ...]
    by_group: bool
    prefix_tokens: int
    question_tokens: int
    answers: Answers
    route: str
    model: str | None
    processes: int
    seed: int
    as_json: bool
    csv: FilePath | None
    plot: FilePath | None


def bench(options: BenchOptions) -> int:
    """Measure, print, write, and return the exit status."""
    try:
        if options.plot:
            figure_class()  # before an hour of measuring, not after it
        _check_files(options)
        sets = _sets(options)
        return asyncio.run(_bench(options, sets))
    except (BadInput, BadTarget, PromptsError, PlotsMissing) as error:
        print(error, file=sys.stderr)
        return WRONG
    except Unreachable as error:
        print(error, file=sys.stderr)
        return UNREACHABLE


def numbers(text: str, name: str, kind: type[int] | type[float]) -> tuple[float, ...]:
    """Numbers above 0 with commas between. Raises BadInput."""
    form = f"{'whole ' if kind is int else ''}numbers above 0 and at most {MOST}, with commas between"
    try:
        found = tuple(kind(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < value <= MOST for value in found):
        raise BadInput(f"{name} {text!r} is not allowed; allowed: {form}")
    return found


def client_processes() -> int:
    """How many client processes where nobody says: half of the cores, for the server may need the others."""
    return max(1, min(8, (os.cpu_count() or 2) // 2))


def _sets(options: BenchOptions) -> tuple[PromptSet, ...]:
    sets = prompt_sets(options.prompts, options.prefix_tokens, options.question_tokens)
    sets = chosen(sets, options.groups)
    return sets if options.by_group or len(sets) == 1 else (together(sets),)


def _check_files(options: BenchOptions) -> None:
    for file in (options.csv, options.plot):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            raise BadInput(f"{file} cannot be written; allowed: a file in a folder that is there")
    if options.plot is not None and options.plot.suffix not in PICTURES:
        raise BadInput(f"--plot {options.plot} is no picture; allowed: {', '.join(PICTURES)}")


async def _bench(options: BenchOptions, sets: Sequence[PromptSet]) -> int:
    signals = Signals()
    signals.install()
    cells: list[Cell] = []
    todo = plans(options.concurrencies, options.rates, sets, options.repeats)
    url, key = base_url(options.url), os.environ.get(KEY_VARIABLE) or None
    died = False
    async with httpx.AsyncClient(trust_env=False) as http:
        address = await unless(signals.stopping, find_address(http, url, options.route, options.model, key))
        if address is None:
            return INTERRUPTED
        try:
            await _measure(options, todo, address, Watch(http, url, key, time.monotonic), cells, signals)
        except ClientDied as error:
            print(error, file=sys.stderr)
            died = True
    shown = _show(options, cells, url)
    if signals.stopping.is_set():
        print(f"stopped after {len(cells)} of {len(todo)} cells", file=sys.stderr)
        return INTERRUPTED
    return BAD if died or not shown or any(cell.bad for cell in cells) else 0


async def _measure(
    options: BenchOptions,
    todo: Sequence[Plan],
    address: Address,
    watch: Watch,
    cells: list[Cell],
    signals: Signals,
) -> None:
    """Measure into `cells`. Raises ClientDied."""
    async with Crew(options.processes) as crew:
        with measuring_progress(len(todo)) as tell:

            def on_cell(cell: Cell) -> None:
                cells.append(cell)
                tell(line(cell), bad=cell.bad)

            await sweep(
                crew,
                todo,
                lambda plan: plan.load(address, options.answers, options.seed),
                options.pace,
                time.monotonic,
                watch,
                on_cell,
                signals.stopping,
            )


def _show(options: BenchOptions, cells: Sequence[Cell], url: str) -> bool:
    """Print and write what was measured; False if a file could not be written."""
    title = f"{url}{options.route}, answers of {_length(options.answers)}"
    if options.as_json:
        print(json.dumps(_document(options, cells, url), indent=2))
    else:
        width = None if sys.stdout.isatty() else 160
        # Names of groups come from a file and are no markup.
        Console(width=width, highlight=False, markup=False, emoji=False).print(as_table(cells, title))
    try:
        if options.csv is not None and cells:
            options.csv.write_text(as_csv(cells), encoding="utf-8")
        if options.plot is not None and cells:
            plot(cells, title, options.plot)
    except (OSError, ValueError) as error:
        print(f"not written: {error}", file=sys.stderr)
        return False
    return True


def _document(options: BenchOptions, cells: Sequence[Cell], url: str) -> dict[str, object]:
    answers = options.answers
    return {
        "url": url,
        "route": options.route,
        "max_tokens": answers.max_tokens,
        "fixed_length": answers.fixed,
        "temperature": answers.temperature,
        "seed": options.seed,
        "processes": options.processes,
        "cells": [row(cell) for cell in cells],
    }


def _length(answers: Answers) -> str:
    return f"{'exactly' if answers.fixed else 'at most'} {answers.max_tokens} tokens"


def line(cell: Cell) -> str:
    """A cell in one line."""
    found = cell.seen.figures
    said = f"{cell.plan.name}: {found.tokens_per_second:,.1f} tok/s, success {percent(found.success_rate)}"
    return "; ".join([said, *remarks(cell)])
