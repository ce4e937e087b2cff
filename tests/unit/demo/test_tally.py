from __future__ import annotations

from itertools import permutations

import pytest

from router.core.words import Path
from router.demo.reply import Reply
from router.demo.tally import BusyTime, Tally


def reply(
    start: float,
    end: float,
    *,
    path: Path | None = Path.BASELINE,
    tokens: int = 10,
    problem: str | None = None,
) -> Reply:
    return Reply(path, start, start + 0.25, end, tokens, problem)


@pytest.mark.parametrize("order", list(permutations([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (2.5, 2.75)])))
def test_overlapping_times_count_once_in_any_order(order: tuple[tuple[float, float], ...]) -> None:
    busy = BusyTime()
    for span in order:
        busy.add(*span)
    assert busy.seconds == 4.0


def test_a_span_may_join_others() -> None:
    busy = BusyTime()
    for span in ((0.0, 1.0), (2.0, 3.0), (0.5, 2.5)):
        busy.add(*span)
    assert busy.seconds == 3.0


def test_throughput_is_over_the_time_in_which_the_path_was_in_use() -> None:
    tally = Tally()
    for each in (reply(0.0, 2.0), reply(1.0, 3.0), reply(10.0, 11.0)):
        tally.record(each)
    figures = tally.figures(Path.BASELINE)
    assert (figures.requests, figures.tokens, figures.tokens_per_second) == (3, 30, 7.5)
    assert (figures.ttft_p50, figures.ttft_p99) == (0.25, 0.25)


def test_a_path_without_requests_has_no_figures() -> None:
    figures = Tally().figures(Path.SPECULATIVE)
    assert (figures.requests, figures.tokens_per_second, figures.ttft_p50) == (0, None, None)


def test_a_failed_request_gives_no_tokens_but_its_path_was_in_use() -> None:
    tally = Tally()
    tally.record(reply(0.0, 1.0))
    tally.record(reply(1.0, 2.0, tokens=0, problem="status 503"))
    tally.record(reply(0.0, 0.0, path=None, tokens=0, problem="refused"))
    assert (tally.requests, tally.failed) == (3, 2)
    assert tally.problems == {"status 503": 1, "refused": 1}
    assert tally.figures(Path.BASELINE).requests == 1
    assert tally.figures(Path.BASELINE).tokens_per_second == 5.0


def test_requests_that_were_given_up_failed() -> None:
    tally = Tally()
    tally.unfinished(2, "open 15 s after the load ended")
    assert (tally.requests, tally.failed) == (2, 2)
