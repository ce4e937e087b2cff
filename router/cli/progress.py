"""Progress of a measurement that takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Tell(Protocol):
    """Says that a part is done: one line about it; `bad`: it cannot be used."""

    def __call__(self, line: str, *, bad: bool = False) -> None: ...


@contextmanager
def measuring_progress(count: int) -> Iterator[Tell]:
    """A bar on a terminal, a line for each part elsewhere; both on stderr.

    Args:
        count: how many parts there are.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:

        def say(line: str, *, bad: bool = False) -> None:
            print(line, file=sys.stderr)

        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("measuring", total=count)

        def tell(line: str, *, bad: bool = False) -> None:
            bar.console.print(line, markup=False, style="red" if bad else None)
            bar.advance(task)

        yield tell
