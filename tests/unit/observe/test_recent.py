"""Recent figures."""

from __future__ import annotations

import pytest

from router.core.words import Outcome, Path
from router.observe.recent import SAMPLES, Figures, Recent, quantile
from tests.support import FakeClock
from tests.unit.observe.build import record


def test_nothing_yet() -> None:
    assert Recent(FakeClock(), lambda: None).figures(Path.BASELINE) == Figures(None, None, 0, 0)


def test_quantiles_are_of_the_last_minute_and_totals_of_all_time() -> None:
    clock = FakeClock()
    recent = Recent(clock, lambda: 2.0)
    recent.on_finished(record(first_byte=9.0))
    clock.advance(40.0)
    recent.on_finished(record(first_byte=1.0))
    assert recent.figures(Path.BASELINE) == Figures(1.0, 9.0, 2, 10)
    clock.advance(21.0)
    assert recent.figures(Path.BASELINE) == Figures(1.0, 1.0, 2, 10)
    clock.advance(60.0)
    assert recent.figures(Path.BASELINE) == Figures(None, None, 2, 10)


def test_the_window_is_bounded_by_number_too() -> None:
    recent = Recent(FakeClock(), lambda: None)
    recent.on_finished(record(first_byte=100.0))
    for _ in range(SAMPLES):
        recent.on_finished(record(first_byte=1.0))
    assert recent.figures(Path.BASELINE).ttft_p99 == 1.0
    assert recent.figures(Path.BASELINE).requests == SAMPLES + 1


def test_paths_are_kept_apart_and_requests_without_one_are_nobodys() -> None:
    recent = Recent(FakeClock(), lambda: 2.0)
    recent.on_finished(record(path=None, outcome=Outcome.REJECTED))
    recent.on_finished(record(path=Path.SPECULATIVE, completion_tokens=None, events=8, streamed=True))
    recent.on_finished(record(path=Path.SPECULATIVE, streamed=False, first_byte=7.0))
    assert recent.figures(Path.BASELINE).requests == 0
    assert recent.figures(Path.SPECULATIVE) == Figures(0.25, 0.25, 2, 21)


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [([], 0.5, None), ([3.0], 0.99, 3.0), ([1.0, 2.0], 0.5, 1.0), ([1.0, 2.0], 0.99, 2.0), ([1.0], 0.0, 1.0)],
)
def test_nearest_rank(values: list[float], share: float, found: float | None) -> None:
    assert quantile(values, share) == found
