"""A launch for people: a bar per engine on a terminal, a line per event elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from router.core.words import Path
from router.launch.engine_log import Progress

STEP = 0.1
"""Shares of a stage between two plain lines."""


class PlainLaunchView:
    """Lines with the seconds since the start."""

    def __init__(self, out: TextIO) -> None:
        self._out: TextIO | None = out
        self._began = time.monotonic()
        self._told: dict[Path, Progress] = {}

    def say(self, path: Path | None, text: str, *, trouble: bool = False) -> None:
        """See `View`."""
        who = f"{path.value}: " if path else ""
        self._write(f"{time.monotonic() - self._began:7.1f}s {'! ' if trouble else ''}{who}{text}")

    def progress(self, path: Path, progress: Progress) -> None:
        """See `View`; every tenth of a stage."""
        told = self._told.get(path)
        same = told is not None and told.stage is progress.stage and told.share is not None
        if same and told and (progress.share or 0.0) < 1.0:
            moved = (progress.share or 0.0) - (told.share or 0.0)
            if 0 <= moved < STEP:
                return
        self._told[path] = progress
        self.say(path, progress_text(progress))

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, line: str) -> None:
        try:
            if self._out is not None:
                print(line, file=self._out, flush=True)
        except OSError:
            self._out = None  # the terminal was closed; engines are to be stopped all the same


class LiveLaunchView:
    """A bar per engine below the lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[says]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[Path, TaskID] = {}
        self._open = True
        self._bars.start()

    def say(self, path: Path | None, text: str, *, trouble: bool = False) -> None:
        """See `View`."""
        who = f"{path.value}: " if path else ""
        try:
            self._console.print(
                escape(who + text), style="bold red" if trouble else "", soft_wrap=True, highlight=False
            )
        except OSError:
            self._open = False

    def progress(self, path: Path, progress: Progress) -> None:
        """See `View`."""
        if not self._open:
            return
        if path not in self._tasks:
            self._tasks[path] = self._bars.add_task(path.value, total=1.0, says="")
        self._bars.update(
            self._tasks[path],
            description=f"{path.value}: {progress.stage.value}",
            completed=progress.share or 0.0,
            says=progress.says,
        )

    def close(self) -> None:
        """Take the bars away."""
        try:
            self._bars.stop()
        except OSError:
            self._open = False


LaunchView = PlainLaunchView | LiveLaunchView


def progress_text(progress: Progress) -> str:
    """One line."""
    share = "" if progress.share is None else f" {progress.share:.0%}"
    return f"{progress.stage.value}{share}{' ' if progress.says else ''}{progress.says}"
