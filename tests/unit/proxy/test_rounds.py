"""One timer looks at all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from router.proxy.rounds import Rounds, Watched


class Clockwork:
    """A loop whose timers fire when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, what: Callable[[], object]) -> object:
        self.due.append((self.now + delay, what))
        return object()

    def fire(self) -> None:
        """Let the one timer that there is strike."""
        ((self.now, what),) = self.due
        self.due.clear()
        what()


class Seen:
    """Notes when it was looked at."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def look(self, now: float) -> None:
        self.at.append(now)


class Broken(Seen):
    """Fails."""

    def look(self, now: float) -> None:
        super().look(now)
        raise RuntimeError("broken")


def rounds_of(clockwork: Clockwork, every: Callable[[], float], *watched: Watched) -> Rounds:
    rounds = Rounds(cast("asyncio.AbstractEventLoop", cast("Any", clockwork)), every)
    for each in watched:
        rounds.join(each)
    return rounds


def test_all_are_looked_at_by_one_timer_at_the_pace_of_the_moment() -> None:
    """The pace follows the settings in force, which a reload changes while rounds are made."""
    clockwork, first, second = Clockwork(), Seen(), Seen()
    pace = [0.5, 0.25, 0.25]
    rounds_of(clockwork, lambda: pace.pop(0), first, second)
    clockwork.fire()
    clockwork.fire()
    assert first.at == second.at == [100.5, 100.75]


def test_there_is_no_timer_while_there_is_nobody_to_look_at() -> None:
    """The last one to leave stops the rounds; the next to come starts them again."""
    clockwork, seen = Clockwork(), Seen()
    rounds = rounds_of(clockwork, lambda: 0.5)
    assert not clockwork.due
    rounds.join(seen)
    rounds.leave(seen)
    rounds.leave(seen)
    clockwork.fire()
    assert not clockwork.due
    assert not seen.at
    rounds.join(seen)
    clockwork.fire()
    assert seen.at == [101.0]


def test_one_that_fails_does_not_keep_the_others_from_being_looked_at() -> None:
    """A fault in one request is not to take the time limits from all others, now or later."""
    clockwork, broken, seen = Clockwork(), Broken(), Seen()
    rounds_of(clockwork, lambda: 0.5, broken, seen)
    clockwork.fire()
    clockwork.fire()
    assert broken.at == seen.at == [100.5, 101.0]
