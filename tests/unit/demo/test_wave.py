from __future__ import annotations

import pytest

from router.demo.wave import Wave

WAVE = Wave(trough=2, peak=19, period=30.0)


def test_it_begins_at_the_trough_and_is_at_the_peak_half_a_period_later() -> None:
    assert [WAVE.users(at) for at in (0.0, 15.0, 30.0, 45.0)] == [2, 19, 2, 19]


def test_it_rises_to_the_peak_and_falls_after_it() -> None:
    users = [WAVE.users(at / 10) for at in range(301)]
    assert users[:151] == sorted(users[:151])
    assert users[150:] == sorted(users[150:], reverse=True)
    assert set(users) == set(range(2, 20))


@pytest.mark.parametrize("at", [0.0, 3.7, 14.2, 29.9])
def test_every_period_is_the_same(at: float) -> None:
    assert WAVE.users(at) == WAVE.users(at + 30.0) == WAVE.users(at + 300.0)


@pytest.mark.parametrize(("trough", "peak", "period"), [(0, 5, 1.0), (5, 5, 1.0), (6, 5, 1.0), (1, 5, 0.0)])
def test_a_wave_that_is_none_is_refused(trough: int, peak: int, period: float) -> None:
    with pytest.raises(ValueError):
        Wave(trough, peak, period)
