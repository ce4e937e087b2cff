"""What signals mean to a command that serves: stop, stop at once, reload."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress


class Signals:
    """SIGTERM and SIGINT set `stopping`, a second one `hurry`. SIGHUP reloads.

    Attributes:
        reload: what SIGHUP does; None while there is nothing to reload.
    """

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.hurry = asyncio.Event()
        self.reload: Callable[[], object] | None = None

    def install(self) -> None:
        """Take the signals over from the running loop's default."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.hang_up)

    def stop(self) -> None:
        """The first time gently."""
        (self.hurry if self.stopping.is_set() else self.stopping).set()

    def hang_up(self) -> None:
        """Reload, if there is something to reload."""
        if self.reload is not None:
            self.reload()


class TerminalSignals(Signals):
    """SIGHUP also comes when the terminal is closed; a command that owns processes then stops."""

    def __init__(self) -> None:
        super().__init__()
        self._had_terminal = has_terminal()
        self._shown = [number for number in (1, 2) if os.isatty(number)]

    def hang_up(self) -> None:
        """Stop if the terminal has gone, else reload."""
        if self._had_terminal and not has_terminal():
            self._show_nothing()
            self.stop()
        else:
            super().hang_up()

    def _show_nothing(self) -> None:
        """What is still written must not fail."""
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for number in self._shown:
            os.dup2(nowhere, number)
        os.close(nowhere)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        return True
    return False
