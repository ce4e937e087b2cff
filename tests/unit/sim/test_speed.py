from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.words import Path
from router.sim.profiles import load_profile
from router.sim.speed import Curve, EngineSpeed, Profile


def test_interpolates_in_step_time_not_in_throughput() -> None:
    curve = Curve(((10, 1.0), (30, 3.0)))
    assert curve.at(20) == pytest.approx(2.0)


def test_holds_its_first_value_below_and_its_last_slope_above() -> None:
    curve = Curve(((10, 1.0), (30, 3.0)))
    assert curve.at(1) == 1.0
    assert curve.at(50) == pytest.approx(5.0)


def test_never_falls_beyond_the_last_point() -> None:
    assert Curve(((1, 2.0), (2, 1.0))).at(10) == 1.0


def test_one_point_is_flat() -> None:
    assert {Curve(((4, 0.5),)).at(n) for n in (1, 4, 400)} == {0.5}


@pytest.mark.parametrize("points", [(), ((0, 1.0),), ((2, 1.0), (1, 1.0)), ((1, 1.0), (1, 2.0)), ((1, 0.0),)])
def test_refuses_points_that_make_no_curve(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError):
        Curve(points)


@given(
    st.dictionaries(st.integers(1, 500), st.floats(1e-4, 10), min_size=1, max_size=8),
    st.integers(1, 2000),
)
def test_stays_positive_and_passes_through_its_points(points: dict[int, float], batch: int) -> None:
    curve = Curve(tuple(sorted(points.items())))
    assert curve.at(batch) > 0
    for size, seconds in points.items():
        assert curve.at(size) == pytest.approx(seconds)


def test_a_pass_costs_the_step_of_all_in_it_and_the_uncached_tokens() -> None:
    speed = EngineSpeed(Curve(((1, 0.01), (2, 0.02))), prefill_base=0.5, prefill_per_token=0.001)
    assert speed.pass_seconds(1, 1, 100) == pytest.approx(0.02 + 0.1)
    assert speed.pass_seconds(0, 1, 100) == pytest.approx(0.5 + 0.1)


@pytest.mark.parametrize(("name", "low", "high"), [("seed", 0, 0), ("h200", 8, 15), ("strong", 10, 10)])
def test_crossover_lies_where_it_was_measured(name: str, low: int, high: int) -> None:
    assert low <= load_profile(name).crossover() <= high


def test_crossover_follows_the_accept_length() -> None:
    profile = load_profile("h200")
    found = [profile.crossover(length) for length in (1.5, 1.8, 2.1, 2.4, 3.0)]
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-1] == 1024


def test_break_even_of_h200_rises_with_load() -> None:
    profile = load_profile("h200")
    lengths = [profile.break_even_accept_length(n) for n in (1, 8, 16, 64, 128)]
    assert all(a < b for a, b in pairwise(lengths))
    assert lengths[0] == pytest.approx(1.6, abs=0.1)
    assert lengths[-1] == pytest.approx(2.5, abs=0.1)


def test_one_running_limit_for_both() -> None:
    profile: Profile = load_profile("strong").with_max_running_requests(7)
    assert {profile.speed(path).max_running_requests for path in Path} == {7}
