"""From requests to figures: only the window counts, and only what succeeded is a result.

The figures are exact for requests whose times were chosen, so they are compared with what one computes by
hand from the definitions in `router/bench/figures.py`.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.bench.figures import Figures, Spread, Window, figures
from router.bench.messages import Sample
from tests.unit.bench.build import WINDOW, sample

SPREADS = ("ttft", "tpot", "gap", "latency")


def test_nothing_came() -> None:
    """No division by zero, no percentiles, and never good."""
    found = figures([], WINDOW)
    assert found == Figures(seconds=10.0, requests=0)
    assert found.success_rate == 0.0
    assert not found.good
    assert found.error is None


def test_tokens_are_spread_over_the_times_of_the_pieces() -> None:
    """Of four pieces one came before the window and one after it: half of the tokens count."""
    one = sample(98.0, 112.0, 40, chunks=[99.0, 101.0, 109.0, 111.0])
    found = figures([one], WINDOW)
    assert found.tokens_per_second == 40 / 2 / 10.0
    assert found.requests == 1
    assert found.in_flight == 1.0
    assert found.output_tokens == 40.0
    assert found.drain_seconds == 2.0
    # Neither its first text nor its end lies in the window.
    assert found.ttft is None
    assert found.latency is None
    assert found.requests_per_second == 0.0


def test_an_answer_in_one_piece_counts_where_it_ended() -> None:
    assert figures([sample(99.0, 105.0, 7)], WINDOW).tokens_per_second == 0.7
    assert figures([sample(99.0, 110.0, 7)], WINDOW).tokens_per_second == 0.0


def test_times_of_a_request() -> None:
    """TTFT to the first piece, TPOT over the tokens after it, gaps between pieces, latency to the end."""
    found = figures([sample(101.0, 105.0, 9, chunks=[102.0, 103.0, 104.5])], WINDOW)
    assert found.ttft == Spread(1.0, 1.0, 1.0)
    assert found.tpot == Spread(3.0 / 8, 3.0 / 8, 3.0 / 8)
    assert found.tokens_per_second_each == 8 / 3.0
    assert found.gap is not None
    assert (found.gap.p50, found.gap.p90) == (1.25, 1.45)
    assert found.latency == Spread(4.0, 4.0, 4.0)
    assert found.in_flight == 0.4
    assert found.requests_per_second == 0.1


def test_one_token_has_no_time_per_token() -> None:
    found = figures([sample(101.0, 102.0, 1, chunks=[102.0])], WINDOW)
    assert found.tpot is None
    assert found.tokens_per_second_each is None
    assert found.ttft is not None


@pytest.mark.parametrize(
    ("started", "ended", "counted"),
    [
        (90.0, 99.9, False),  # over before the window
        (90.0, 100.0, True),  # fails as it opens
        (90.0, 150.0, True),  # open all the time, fails long after
        (109.9, 200.0, True),  # begins in the window, fails after it
        (110.0, 111.0, False),  # begins when it is over
    ],
)
def test_failures_of_all_requests_that_were_open_count(started: float, ended: float, counted: bool) -> None:
    """Those that fail late are not left out, or a hanging server would have no failures."""
    found = figures([sample(started, ended, problem="timeout")], WINDOW)
    assert found.requests == counted
    assert found.failures == ({"timeout": 1} if counted else {})


@pytest.mark.parametrize(("failed", "good"), [(0, True), (1, True), (2, True), (3, False), (200, False)])
def test_no_percentiles_when_more_than_one_in_a_hundred_failed(failed: int, good: bool) -> None:
    """Of 200 requests 2 may fail. Above that the survivors' times would flatter the server."""
    fine = [sample(101.0, 105.0, 9, chunks=[102.0, 103.0])] * (200 - failed)
    found = figures([*fine, *[sample(101.0, 101.5, problem="status 503")] * failed], WINDOW)
    assert found.good is good
    assert found.success_rate == (200 - failed) / 200
    assert found.failed == failed
    for name in (*SPREADS, "tokens_per_second_each"):
        assert (getattr(found, name) is not None) is good, name
    # What was delivered is still told, beside the success rate.
    assert found.tokens_per_second == 9 * (200 - failed) / 10.0


def test_failures_are_listed_by_reason() -> None:
    problems = ["timeout", "empty", "timeout"]
    found = figures([sample(101.0, 102.0, problem=each) for each in problems], WINDOW)
    assert dict(found.failures) == {"empty": 1, "timeout": 2}


def test_the_error_is_that_of_ten_parts_of_the_window() -> None:
    """Evenly spread tokens leave none; all tokens in one tenth give Student's 1.833 times one whole mean."""
    even = [sample(99.0, 120.0, 20, chunks=[100.25 + 0.5 * step for step in range(20)])]
    assert figures(even, WINDOW).error == pytest.approx(0.0)
    heap = [sample(99.0, 120.0, 20, chunks=[104.5])]
    # One part of ten holds all: the deviation of the parts is √10 means, that of their mean one mean.
    assert figures(heap, WINDOW).error == pytest.approx(1.833)


def test_the_share_of_the_speculative_engine_is_of_those_of_which_it_was_told() -> None:
    told = [sample(101.0, 102.0, 5, path=path) for path in ("speculative", "baseline", "speculative", None)]
    assert figures(told, WINDOW).speculative_share == pytest.approx(2 / 3)
    assert figures(told[3:], WINDOW).speculative_share is None


def test_cached_tokens_are_those_of_servers_that_tell() -> None:
    told = [sample(101.0, 102.0, 5, cached=each) for each in (10, 20, None)]
    assert figures(told, WINDOW).cached_tokens == 15.0
    assert figures(told[2:], WINDOW).cached_tokens is None


# In eighths of a second, which binary fractions hold exactly.
TIMES = st.integers(0, 320).map(lambda eighths: eighths / 8)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Any request: its times in order, with or without pieces, succeeded or not."""
    moments = sorted(draw(st.lists(TIMES, min_size=2, max_size=12)))
    chunks = moments[1:] if draw(st.booleans()) else []
    problem = draw(st.sampled_from([None, None, "timeout", "status 503"]))
    tokens = draw(st.integers(1, 500))
    return sample(moments[0], moments[-1], tokens, chunks=chunks, problem=problem)


@given(st.lists(samples(), max_size=20), st.lists(TIMES, min_size=3, max_size=3, unique=True))
def test_tokens_of_adjoining_windows_add_up(some: list[Sample], cuts: list[float]) -> None:
    """No token is counted twice or lost at a window's edge."""
    first, middle, last = sorted(cuts)
    whole, early, late = (
        figures(some, window).tokens_per_second * window.seconds
        for window in (Window(first, last), Window(first, middle), Window(middle, last))
    )
    assert early + late == pytest.approx(whole, abs=1e-6)


@given(st.lists(samples(), max_size=20))
def test_all_tokens_that_succeeded_are_in_a_window_around_everything(some: list[Sample]) -> None:
    window = Window(-1.0, 41.0)
    tokens = sum(one.tokens for one in some if one.problem is None)
    assert figures(some, window).tokens_per_second * window.seconds == pytest.approx(tokens)


@given(st.lists(samples(), max_size=20))
def test_the_success_rate_is_a_share(some: list[Sample]) -> None:
    found = figures(some, WINDOW_OF_ALL)
    assert 0.0 <= found.success_rate <= 1.0
    assert found.failed + sum(one.problem is None for one in some) == found.requests == len(some)


@given(st.lists(samples(), max_size=20))
def test_failed_requests_leave_nothing_but_failures(some: list[Sample]) -> None:
    """All figures but those of presence are the same as if the failed ones had not been sent."""
    found = figures(some, WINDOW_OF_ALL)
    without = figures([one for one in some if one.problem is None], WINDOW_OF_ALL)
    kept = {"requests", "failures", "in_flight", "drain_seconds"}
    for field in fields(Figures):
        if field.name not in kept and (found.good or not _of_survivors(field.name)):
            assert getattr(found, field.name) == getattr(without, field.name), field.name


def _of_survivors(name: str) -> bool:
    return name in (*SPREADS, "tokens_per_second_each")


WINDOW_OF_ALL = Window(0.0, 40.5)
