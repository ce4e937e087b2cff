"""The order of starts, restarts with back-off, and the end, on a clock that is a number."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.words import Path
from router.launch.sequence import STEPS, Do, Ended, Phase, Rules, Sequence, Step

S, B = Path.SPECULATIVE, Path.BASELINE
RULES = Rules(stall=100, delay=1, longest_delay=8, attempts=4, stable=50)


def both(exclusive: bool = True) -> Sequence:
    return Sequence((S, B), exclusive, RULES)


def bring_up(sequence: Sequence, path: Path, now: float) -> None:
    """Take every step of one engine at once."""
    for step in STEPS:
        assert Do(path, step) in sequence.orders(now)
        sequence.done(path, step, now)
    assert sequence.phase(path) is Phase.UP


def up(exclusive: bool = True) -> Sequence:
    sequence = both(exclusive)
    bring_up(sequence, S, 0)
    bring_up(sequence, B, 0)
    return sequence


def test_the_second_begins_when_the_first_has_been_verified() -> None:
    sequence = both()
    for step in STEPS:
        assert sequence.orders(1) == [Do(S, step)]
        assert sequence.orders(1) == []  # once
        assert sequence.phase(B) is Phase.WAITING
        assert not sequence.complete
        sequence.done(S, step, 1)
    assert sequence.orders(2) == [Do(B, STEPS[0])]
    assert sequence.step(S) is None
    assert sequence.step(B) is Step.CLEAR


def test_engines_with_gpus_of_their_own_start_together() -> None:
    assert both(exclusive=False).orders(0) == [Do(S, STEPS[0]), Do(B, STEPS[0])]


def test_complete_is_when_all_have_been_up_together() -> None:
    sequence = both()
    bring_up(sequence, S, 0)
    sequence.lost(S, 1, "died")
    bring_up(sequence, B, 1)
    assert not sequence.complete
    bring_up(sequence, S, 2)
    assert sequence.complete
    sequence.lost(S, 3, "died")
    assert sequence.complete


def test_an_engine_that_was_never_up_ends_the_launch() -> None:
    sequence = both()
    bring_up(sequence, S, 0)
    sequence.orders(1)
    sequence.lost(B, 2, "exit code 1")
    assert sequence.ended == Ended(B, "exit code 1")
    assert sequence.orders(100) == []


def test_back_off_doubles_up_to_a_limit_and_then_an_engine_is_given_up() -> None:
    sequence = up()
    now, waits = 10.0, []
    for _ in range(RULES.attempts):
        sequence.lost(S, now, "died")
        assert sequence.phase(S) is Phase.WAITING
        waits.append(sequence.due(S) - now)
        assert sequence.orders(sequence.due(S) - 0.01) == []
        now = sequence.due(S)
        assert sequence.orders(now) == [Do(S, Step.CLEAR)]
    assert waits == [1, 2, 4, 8]
    sequence.lost(S, now, "died")
    assert sequence.phase(S) is Phase.GIVEN_UP
    assert sequence.phase(B) is Phase.UP
    assert sequence.ended is None


def test_the_last_engine_to_be_given_up_ends_the_launch() -> None:
    sequence = up()
    for path in (S, B):
        now = 10.0
        for _ in range(RULES.attempts + 1):
            sequence.orders(now)
            sequence.lost(path, now, f"{path} died")
            now += 10
    assert sequence.ended == Ended(B, "baseline died")


def test_failures_are_forgotten_by_an_engine_that_stayed_up() -> None:
    sequence = up()
    sequence.lost(S, 10, "died")
    bring_up(sequence, S, 11)
    sequence.lost(S, 11 + 49, "died")
    assert sequence.due(S) - 60 == 2
    bring_up(sequence, S, 62)
    sequence.lost(S, 62 + 50, "died")
    assert sequence.due(S) - 112 == 1


def test_two_that_died_come_back_one_at_a_time() -> None:
    sequence = up()
    sequence.lost(B, 10, "died")
    sequence.lost(S, 10, "died")
    assert sequence.orders(11) == [Do(S, Step.CLEAR)]
    bring_up_rest = [step for step in STEPS if step is not Step.CLEAR]
    sequence.done(S, Step.CLEAR, 12)
    for step in bring_up_rest:
        assert sequence.orders(12) == [Do(S, step)]
        sequence.done(S, step, 12)
    assert sequence.orders(13) == [Do(B, Step.CLEAR)]


def test_a_start_is_stalled_by_silence_and_not_by_time() -> None:
    sequence = both()
    for step in (Step.CLEAR, Step.START):
        sequence.orders(0)
        sequence.done(S, step, 0)
    sequence.orders(0)
    for now in range(50, 1000, 50):
        assert sequence.stalled(now) == []
        sequence.progressed(S, now)
    assert sequence.stalled(950 + 99) == []
    assert sequence.stalled(950 + 100) == [S]


def test_memory_that_does_not_settle_is_no_stall() -> None:
    sequence = both()
    sequence.orders(0)
    assert sequence.stalled(10_000) == []


def test_news_of_another_step_or_of_a_dead_engine_are_nothing() -> None:
    sequence = both()
    sequence.orders(0)
    sequence.done(S, Step.TOKEN, 0)
    assert sequence.step(S) is Step.CLEAR
    sequence = up()
    sequence.lost(S, 1, "died")
    due = sequence.due(S)
    sequence.lost(S, 1.5, "died twice")
    sequence.done(S, Step.CLEAR, 1.5)
    assert sequence.due(S) == due


EVENTS = st.lists(
    st.tuples(st.sampled_from((S, B)), st.sampled_from(("done", "lost", "progress")), st.floats(0, 30)),
    max_size=120,
)


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_whatever_happens_never_two_start_at_once(events: list[tuple[Path, str, float]]) -> None:
    sequence, now = both(), 0.0
    for path, what, passed in events:
        now += passed
        before = sequence.ended
        for order in sequence.orders(now):
            assert sequence.step(order.path) is order.step
        step = sequence.step(path)
        if what == "done" and step is not None:
            sequence.done(path, step, now)
        elif what == "lost":
            sequence.lost(path, now, "died")
        else:
            sequence.progressed(path, now)
        starting = [each for each in (S, B) if sequence.phase(each) is Phase.STARTING]
        assert len(starting) <= 1
        assert before is None or sequence.ended == before
        assert before is None or sequence.orders(now) == []
