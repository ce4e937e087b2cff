"""A launch in plain lines, and what signals mean to it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from router.cli import signals as signals_module
from router.cli.launch_view import LiveLaunchView, PlainLaunchView
from router.cli.signals import Signals, TerminalSignals
from router.core.words import Path
from router.launch.engine_log import Progress, Stage

S = Path.SPECULATIVE


def test_a_line_for_every_tenth_of_a_stage_and_for_its_end() -> None:
    out = io.StringIO()
    view = PlainLaunchView(out)
    view.progress(S, Progress(Stage.WEIGHTS))
    for percent in range(101):
        view.progress(S, Progress(Stage.WEIGHTS, percent / 100, f"{percent}/100"))
    view.progress(S, Progress(Stage.POOL, None, "17 tokens"))
    lines = out.getvalue().splitlines()
    assert 12 <= len(lines) <= 14
    assert lines[-2].endswith("speculative: weights 100% 100/100")
    assert lines[-1].endswith("speculative: KV pool 17 tokens")


def test_trouble_is_marked_and_a_closed_terminal_is_none() -> None:
    out = io.StringIO()
    view = PlainLaunchView(out)
    view.say(None, "bad", trouble=True)
    assert out.getvalue().endswith("! bad\n")

    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(5, "Input/output error")

    view = PlainLaunchView(Gone())
    view.say(None, "one")
    view.say(S, "two")


def test_bars_on_a_terminal() -> None:
    out = io.StringIO()
    view = LiveLaunchView(Console(file=out, force_terminal=True, width=100))
    view.progress(S, Progress(Stage.WEIGHTS, 0.5, "5/10"))
    view.say(S, "[not markup]", trouble=True)
    view.close()
    assert "[not markup]" in out.getvalue()


@pytest.mark.parametrize(
    ("before", "after", "stops", "reloads"),
    [(True, False, True, 0), (True, True, False, 1), (False, False, False, 1)],
)
async def test_sighup_is_reload_unless_the_terminal_has_gone(
    monkeypatch: pytest.MonkeyPatch, before: bool, after: bool, stops: bool, reloads: int
) -> None:
    states = iter((before, after))
    monkeypatch.setattr(signals_module, "has_terminal", lambda: next(states))
    calls: list[int] = []
    own = TerminalSignals()
    own.reload = lambda: calls.append(1)
    own.hang_up()
    assert own.stopping.is_set() is stops
    assert len(calls) == reloads


async def test_the_second_stop_is_hurry() -> None:
    own = Signals()
    own.hang_up()  # nothing to reload yet
    own.stop()
    assert own.stopping.is_set()
    assert not own.hurry.is_set()
    own.stop()
    assert own.hurry.is_set()
