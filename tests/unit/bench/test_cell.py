"""When a load stands and how long it is watched: decided from statuses alone, so a test can make them up.

A fake of the client processes gives a status four times a second of a clock of its own; the load behind them
is a function of time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from router.bench.cell import CLIENT_LIMIT, LATE_LIMIT, LONGEST_WARM_UP, LONGEST_WINDOW, Held, grows
from router.bench.figures import Window
from router.bench.messages import Load, Sample, Status
from tests.support.clock import FakeClock
from tests.unit.bench.build import WINDOW, load, sample

EVERY = 0.25
Told = Callable[[float], Status]


class FakeRunning:
    """What `Running` is to `Held`: statuses of processes, told by functions of the seconds so far."""

    def __init__(self, clock: FakeClock, *told: Told) -> None:
        self._clock = clock
        self._began = clock()
        self._told = told
        self.stops: list[bool] = []

    async def statuses(self) -> list[Status]:
        now = self._clock.advance(EVERY)
        return [told(now - self._began) for told in self._told]

    def stop(self, *, cut: bool = False) -> None:
        self.stops.append(cut)

    async def samples(self) -> list[Sample]:
        return []


def held(*told: Told, of: Load | None = None) -> tuple[Held, FakeClock]:
    clock = FakeClock()
    return Held(FakeRunning(clock, *told), of or load(4), clock), clock  # type: ignore[arg-type]


def steady(seconds: float, **changed: float) -> Status:
    """Four slots at work from the start: a hundred pieces and two answers a second, a tenth of a core."""
    usual: dict[str, float] = {
        "at": 1000.0 + seconds,
        "cpu": 0.1 * seconds,
        "late": 0.05 * seconds,  # a millisecond each
        "beats": 50 * seconds,
        "chunks": int(100 * seconds),
        "warm": 4,
        "open": 4,
        "done": int(2 * seconds),
        "failed": 0,
    }
    return Status(**{**usual, **changed})  # type: ignore[arg-type]


async def warmed(*told: Told, of: Load | None = None, seconds: float = 2.0) -> float:
    """How long the warm-up took."""
    one, clock = held(*told, of=of)
    begin = clock()
    await one.warm(seconds)
    return clock() - begin


async def test_a_load_that_stands_at_once_is_warmed_up_as_long_as_was_asked() -> None:
    assert await warmed(steady) == 2.0


async def test_it_stands_once_every_slot_has_seen_a_token() -> None:
    """The last slot's first token comes after five seconds; the warm-up proper begins then."""
    took = await warmed(lambda t: steady(t, warm=4 if t >= 5 else 3))
    assert took == pytest.approx(5.0 + 2.0, abs=EVERY)


async def test_slots_of_all_processes_count_together() -> None:
    took = await warmed(lambda t: steady(t, warm=2), lambda t: steady(t, warm=2 if t >= 3 else 0))
    assert took == pytest.approx(3.0 + 2.0, abs=EVERY)


async def test_a_silence_begins_it_anew() -> None:
    """From 1 s to 6 s nothing comes, as while kernels are built for a new batch size."""
    took = await warmed(lambda t: steady(t, chunks=int(100 * (t if t < 1 else max(1, t - 5))), done=0))
    assert took == pytest.approx(6.0 + 2.0, abs=2 * EVERY)


async def test_a_pause_shorter_than_a_second_does_not() -> None:
    took = await warmed(lambda t: steady(t, chunks=int(t), done=0), seconds=4.0)
    assert took == pytest.approx(4.0, abs=EVERY)


async def test_silence_that_comes_again_and_again_is_how_the_server_is() -> None:
    """A text every second and a half, with nothing between: a server of long prompts and short answers.

    Three silences are waited for, not a minute.
    """
    took = await warmed(lambda t: steady(t, chunks=int(t / 1.5), done=0), seconds=2.0)
    assert took < 10.0


async def test_failures_are_news_as_well() -> None:
    """A server that refuses everything gives no text, and its cell must not take a minute to say so."""
    assert await warmed(lambda t: steady(t, chunks=0, done=int(20 * t), failed=int(20 * t))) == 2.0


async def test_a_load_that_never_stands_is_measured_all_the_same_and_noted() -> None:
    one, clock = held(lambda t: steady(t, warm=3))
    begin = clock()
    await one.warm(2.0)
    assert clock() - begin == 2.0 + LONGEST_WARM_UP
    seen = one.seen([], WINDOW)
    assert seen.notes == ("the load did not stand after 60 s, and was measured all the same",)
    assert seen.problems == ()


async def test_an_open_loop_stands_once_its_first_request_has_ended() -> None:
    """Until then the number in flight still grows."""
    told = lambda t: steady(t, warm=1 if t >= 9 else 0)  # noqa: E731
    assert await warmed(told, of=load(0, 2.0)) == pytest.approx(9.0 + 2.0, abs=EVERY)


async def test_an_open_loop_may_be_silent() -> None:
    """Where requests come rarely, there is often nothing to be heard."""
    told = lambda t: steady(t, warm=1, chunks=0, done=0)  # noqa: E731
    assert await warmed(told, of=load(0, 0.1)) == 2.0


async def watched(told: Told, seconds: float = 8.0, of: Load | None = None) -> Window:
    one, _ = held(told, of=of)
    return await one.window(seconds)


async def test_a_window_is_as_long_as_was_asked() -> None:
    assert (await watched(steady)).seconds == 8.0


async def test_a_window_lasts_until_as_many_have_ended_as_were_open() -> None:
    """Else it might see four answers' middles and no prompt. One ends every five seconds, so four take 20."""
    window = await watched(lambda t: steady(t, done=int(t / 5)))
    assert window.seconds == pytest.approx(20.0, abs=2 * EVERY)


async def test_but_not_for_ever() -> None:
    assert (await watched(lambda t: steady(t, done=0))).seconds == 8.0 * LONGEST_WINDOW


async def test_a_window_of_an_open_loop_sees_as_many_end_as_were_open() -> None:
    window = await watched(lambda t: steady(t, open=30), of=load(0, 2.0))
    assert window.seconds == pytest.approx(15.0, abs=2 * EVERY)


@pytest.mark.parametrize(("share", "limit"), [(CLIENT_LIMIT - 0.01, False), (CLIENT_LIMIT + 0.01, True)])
async def test_a_client_at_its_limit_is_a_problem(share: float, limit: bool) -> None:
    """The busiest process is what counts: the others cannot help it."""
    one, _ = held(lambda t: steady(t, cpu=share * t), steady)
    window = await one.window(8.0)
    seen = one.seen([], window)
    assert seen.client_busy == pytest.approx(share)
    said = [f"the client is at its limit ({share:.0%} of a core): use more processes"]
    assert list(seen.problems) == (said if limit else [])


@pytest.mark.parametrize(("late", "limit"), [(LATE_LIMIT - 0.001, False), (LATE_LIMIT + 0.001, True)])
async def test_a_client_that_is_late_is_a_problem(late: float, limit: bool) -> None:
    """Others may take the processor from it; then it is not busy, and its times are wrong all the same."""
    one, _ = held(steady, lambda t: steady(t, late=late * 50 * t))
    seen = one.seen([], await one.window(8.0))
    assert seen.client_late == pytest.approx(late)
    said = ["the client is 6 ms late on average: leave it more of the processor"]
    assert list(seen.problems) == (said if limit else [])


def arrivals(rate: float, latency: Callable[[float], float], seed: int, begin: float = 80.0) -> list[Sample]:
    """Requests that come by chance, and how long each takes by when it came."""
    rng, at, found = random.Random(seed), begin, []
    while at < WINDOW.end:
        found.append(sample(at, at + latency(at), 10))
        at += rng.expovariate(rate)
    return found


def growing(some: Sequence[Sample]) -> bool:
    return grows(
        some,
        WINDOW,
        sum(min(one.ended, 110.0) - max(one.started, 100.0) for one in some if one.ended > 100.0) / 10.0,
    )


@pytest.mark.parametrize("rate", [0.5, 2.0, 20.0])
def test_chance_is_no_growth(rate: float) -> None:
    """Of loads that are served at once hardly any is called growing: by the normal law one in 160."""
    called = sum(growing(arrivals(rate, lambda at: 4.0, seed)) for seed in range(400))
    assert called <= 8


@pytest.mark.parametrize("served", [0.5, 0.6])
def test_more_than_is_served_is_growth(served: float) -> None:
    """Twenty come every second, a part of them is served: each waits longer than the one before.

    Begun eight seconds before the window, as after a warm-up.
    """
    late = lambda at: 1.0 + (at - 92.0) * (1 / served - 1)  # noqa: E731
    called = sum(growing(arrivals(20.0, late, seed, begin=92.0)) for seed in range(200))
    assert called >= 190


async def test_growth_is_a_problem_of_an_open_loop_only() -> None:
    late = arrivals(20.0, lambda at: 1.0 + (at - 92.0), 1, begin=92.0)
    one, _ = held(steady, of=load(0, 20.0))
    assert one.seen(late, WINDOW).problems == (
        "more came than was served: the requests in flight grew all the time",
    )
    closed, _ = held(steady)
    assert closed.seen(late, WINDOW).problems == ()
