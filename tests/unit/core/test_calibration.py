"""Step times, break-even accept length and crossover from a sweep."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from router.core.band import band, settles_at
from router.core.bootstrap import break_even_interval, cell_errors, interval, interval_of, sweeps
from router.core.calibration import (
    Calibration,
    Cell,
    Key,
    PathCalibration,
    Range,
    Reach,
    mismatches,
    quantile,
)
from router.core.curve import StepCurve, fit
from router.core.words import Path, Placement
from tests.support.sweeps import (
    SEEN_BASELINE,
    SEEN_EAGLE,
    TOGETHER,
    UNSEEN_BASELINE,
    UNSEEN_EAGLE,
    linear,
    sweep,
)

SPECULATIVE, BASELINE = Path


def test_a_curve_is_linear_between_points_flat_below_and_goes_on_above() -> None:
    curve = StepCurve(((2, 0.010), (4, 0.014), (8, 0.016)))
    assert curve.at(1) == 0.010
    assert curve.at(3) == pytest.approx(0.012)
    assert curve.at(6.5) == pytest.approx(0.01525)
    assert curve.at(12) == pytest.approx(0.018)
    assert curve.last == 8


def test_a_curve_of_one_point_is_flat() -> None:
    assert StepCurve(((4, 0.01),)).at(100) == 0.01


@pytest.mark.parametrize(
    "points", [(), ((0, 0.1),), ((1, 0.0),), ((2, 0.1), (2, 0.2)), ((1, 0.2), (2, 0.1))], ids=str
)
def test_a_curve_never_falls_and_has_positive_times(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError):
        StepCurve(points)


def test_repeats_and_falling_neighbours_are_pooled_as_geometric_means() -> None:
    curve = fit([(1, 0.010), (1, 0.040), (2, 0.005), (4, 0.030)])
    pooled = (0.010 * 0.040 * 0.005) ** (1 / 3)
    assert [size for size, _ in curve.points] == [1, 2, 4]
    assert [seconds for _, seconds in curve.points] == pytest.approx([pooled, pooled, 0.03])


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_step_time_that_is_not_above_0_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError):
        fit([(1, seconds)])


@pytest.mark.parametrize(
    "cell",
    [lambda: Cell(0, (1.0,)), lambda: Cell(1, ()), lambda: Cell(1, (1.0, 2.0), (2.0,))],
    ids=["concurrency", "no rate", "lengths"],
)
def test_a_cell_must_make_sense(cell: object) -> None:
    with pytest.raises(ValueError):
        cell()  # type: ignore[operator]


def test_step_times_are_concurrency_times_accept_length_over_throughput() -> None:
    assert Cell(8, (400.0, 800.0), (2.0, 2.5)).steps() == (0.04, 0.025)
    assert Cell(8, (400.0,)).steps() == (0.02,)


def test_the_break_even_accept_length_is_that_of_the_measurement() -> None:
    found = sweep(SEEN_BASELINE, SEEN_EAGLE)
    for n, expected in ((1, 1.63), (2, 1.70), (4, 1.74), (8, 1.77), (16, 2.73), (32, 2.97)):
        assert found.break_even[n - 1] == pytest.approx(expected, abs=0.01)
        assert found.break_even_at(n) == found.break_even[n - 1]
    assert found.accept_length == pytest.approx(2.09)
    assert found.limit == 128


def test_the_crossover_lies_where_the_measurement_has_it() -> None:
    found = sweep(SEEN_BASELINE, SEEN_EAGLE).crossover(2.1)
    assert found.reach is Reach.PART
    assert 8 < found.n < 16
    assert found.ranges == (Range(1, 10),)


def test_none_and_always_are_said_as_such() -> None:
    engines = linear(10.0, gain=2.0)
    assert engines.crossover(1.0).reach is Reach.NONE
    assert engines.crossover(1.0).n == 0.0
    assert engines.crossover(20.0).reach is Reach.ALWAYS
    assert engines.crossover(20.0).n == engines.limit


@pytest.mark.parametrize("wanted", [1.5, 4.0, 10.0, 60.0])
def test_the_crossover_of_linear_engines_is_where_they_tie(wanted: float) -> None:
    engines = linear(wanted)
    found = engines.crossover(2.0)
    assert found.n == pytest.approx(wanted, rel=0.05)
    here = [engines.tokens_per_second(path, found.n, 2.0) for path in Path]
    assert here[0] == pytest.approx(here[1], rel=0.02)


def test_a_range_far_up_that_does_not_pay_for_the_losses_before_it_is_left_out() -> None:
    base = {1: 100.0, 4: 400.0, 8: 800.0, 64: 6400.0, 128: 6500.0}
    eagle = {1: 200.0, 4: 440.0, 8: 500.0, 64: 3300.0, 128: 6600.0}
    engines = sweep(base, {n: (rate, 2.0) for n, rate in eagle.items()})
    found = engines.crossover(2.0)
    assert [each.first for each in found.ranges] == [1, pytest.approx(127, abs=2)]
    assert found.reach is Reach.PART
    assert 4 <= found.n < 8


def test_ranges_whose_losses_outweigh_them_are_no_crossover() -> None:
    base = {1: 100.0, 2: 200.0, 64: 6400.0, 128: 6500.0}
    eagle = {1: 60.0, 2: 120.0, 64: 3300.0, 128: 6600.0}
    found = sweep(base, {n: (rate, 2.0) for n, rate in eagle.items()}).crossover(2.0)
    assert [each.last for each in found.ranges] == [128]
    assert (found.reach, found.n) == (Reach.NONE, 0.0)


def test_the_mixed_fractions_are_medians_of_what_was_measured() -> None:
    engines = sweep(UNSEEN_BASELINE, UNSEEN_EAGLE, mixed=TOGETHER)
    assert engines.mixed_fraction(BASELINE) == pytest.approx(0.51, abs=0.02)
    assert engines.mixed_fraction(SPECULATIVE) == pytest.approx(0.69, abs=0.04)


def test_without_a_mixed_cell_the_fractions_are_those_of_an_h200_and_1_on_gpus_of_their_own() -> None:
    shared = linear(10.0)
    assert [shared.mixed_fraction(path) for path in Path] == [0.70, 0.52]
    apart = replace(shared, key=Key(placement=Placement.SEPARATE))
    assert [apart.mixed_fraction(path) for path in Path] == [1.0, 1.0]


def test_a_drain_is_as_measured_or_as_long_as_a_request_that_has_just_begun() -> None:
    engines = linear(10.0)
    alone = 200 * engines.step_seconds(BASELINE, 4)
    assert engines.drain_seconds(BASELINE, 4) == pytest.approx(alone / 0.52)
    alone = 200 / 2.0 * engines.step_seconds(SPECULATIVE, 1)
    assert engines.drain_seconds(SPECULATIVE, 0) == pytest.approx(alone / 0.70)
    measured = replace(engines, baseline=replace(engines.baseline, drain_seconds=(1.0, 2.0, 3.0, 30.0)))
    assert measured.drain_seconds(BASELINE, 4) == pytest.approx(21.9)


def test_the_dwell_is_the_p90_of_the_drains_but_10_seconds_at_least() -> None:
    engines = linear(10.0)
    assert engines.dwell() == 10.0
    short = replace(engines, speculative=replace(engines.speculative, drain_seconds=(1.0, 2.0)))
    assert short.dwell() == 10.0
    long = replace(engines, baseline=replace(engines.baseline, drain_seconds=(10.0, 20.0)))
    assert long.dwell() == pytest.approx(19.0)


def test_an_engine_without_accept_lengths_has_that_of_one_token_a_step() -> None:
    plain = PathCalibration((Cell(1, (100.0,)),))
    assert Calibration(Key(), plain, plain).accept_length == 1.0


def test_quantiles_are_linear_between_neighbours() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.9) == pytest.approx(1.9)
    assert quantile([7.0], 0.9) == 7.0


def test_the_band_lies_around_the_crossover_and_below_where_baseline_settles() -> None:
    engines = linear(20.0)
    found = band(engines, 2.0)
    assert found.high is not None
    assert found.high == pytest.approx(1.25 * found.crossover.n)
    assert found.settles_at is not None
    assert found.low is not None
    assert found.crossover.n <= found.settles_at <= found.high
    assert found.low <= 0.5 * found.crossover.n
    assert found.low <= found.settles_at - 2 * math.sqrt(found.settles_at)


def test_where_the_load_settles_baseline_gives_what_speculation_gave() -> None:
    engines = linear(20.0)
    settled = settles_at(engines, 2.0, 25.0)
    assert engines.tokens_per_second(BASELINE, settled) == pytest.approx(
        engines.tokens_per_second(SPECULATIVE, 25.0, 2.0), rel=1e-6
    )


def test_a_tiny_crossover_still_lets_an_idle_pair_come_back() -> None:
    found = band(linear(1.5), 2.0)
    assert found.low == 0.5
    assert found.high == pytest.approx(1.25 * 1.5, rel=0.05)


def test_without_a_crossover_one_watermark_is_out_of_reach() -> None:
    engines = linear(10.0)
    never, always = band(engines, 1.0), band(engines, 20.0)
    assert (never.low, never.high) == (None, 1.0)
    assert (always.low, always.high) == (engines.limit, None)


def test_the_interval_covers_the_crossover_and_noise_widens_it() -> None:
    quiet = interval(linear(12.0), 2.0, Random(1).random, resamples=100)
    assert quiet.low == pytest.approx(quiet.high, rel=0.35)
    noisy = interval(sweep(SEEN_BASELINE, SEEN_EAGLE), 2.1, Random(1).random, resamples=200)
    assert noisy.low < 10 < noisy.high
    assert noisy.high - noisy.low > quiet.high - quiet.low
    assert not quiet.unknown


def test_repeats_count_by_their_own_spread() -> None:
    cells = tuple(Cell(n, (90.0 * n, 110.0 * n)) for n in (1, 2, 4))
    eagle = tuple(Cell(n, (100.0 * n,), (1.0,)) for n in (1, 2, 4))
    engines = Calibration(Key(), PathCalibration(eagle), PathCalibration(cells))
    found = interval(engines, 1.0, Random(3).random, resamples=200)
    assert found.none > 0
    assert found.always > 0
    assert found.unknown


def test_an_interval_of_a_single_cell_is_a_point() -> None:
    one = PathCalibration((Cell(1, (100.0,), (1.0,)),))
    found = interval(Calibration(Key(), one, one), 2.0, Random(0).random, resamples=5)
    assert (found.low, found.high, found.always) == (1.0, 1.0, 1.0)


def test_the_ends_of_a_sweep_without_repeats_say_nothing_about_errors() -> None:
    """The curve through the others is flat below the first and only guesses above the last cell."""
    cells = (Cell(1, (100.0,)), Cell(2, (180.0,)), Cell(4, (300.0,)))
    path = PathCalibration(cells)
    first, second, third = (cell_errors(path, cell) for cell in cells)
    assert (first, third) == ((), ())
    between = 0.01 + (4 / 300 - 0.01) / 3
    assert second == pytest.approx((math.log(2 / 180 / between),))


def test_the_errors_of_repeats_are_widened_for_the_curve_follows_them() -> None:
    path = PathCalibration((Cell(1, (90.0, 110.0)), Cell(2, (190.0, 190.0))))
    apart = math.sqrt(2) * math.log(110 / 90) / 2
    assert cell_errors(path, path.cells[0]) == pytest.approx((apart, -apart))


def test_repeats_that_agree_by_chance_are_not_taken_to_be_exact() -> None:
    """What is known of the noise within the repeats is a floor, whatever the repeats say."""
    engines = linear(12.0)
    exact = tuple(Cell(each.concurrency, each.tokens_per_second * 2) for each in engines.baseline.cells)
    gains = tuple(
        Cell(each.concurrency, each.tokens_per_second * 2, each.accept_length * 2)
        for each in engines.speculative.cells
    )
    twice = Calibration(Key(), PathCalibration(gains), PathCalibration(exact))
    certain = interval_of(sweeps(twice, Random(1).random, 50), 2.0)
    noisy = interval_of(sweeps(twice, Random(1).random, 50, dict.fromkeys(Path, 0.05)), 2.0)
    assert certain.low == pytest.approx(certain.high)
    assert noisy.low < 0.95 * certain.low < 1.05 * certain.high < noisy.high


def test_the_interval_of_the_break_even_holds_the_break_even() -> None:
    engines = sweep(SEEN_BASELINE, SEEN_EAGLE)
    low, high = break_even_interval(sweeps(engines, Random(1).random, 100), 8)
    assert low < engines.break_even_at(8) < high


def test_a_key_that_does_not_match_is_refused_with_the_reason() -> None:
    made = Key("m", "d", "0.5.16", "aa", Placement.SHARED)
    assert mismatches(made, made) == ()
    assert mismatches(made, Key()) == ()
    assert mismatches(made, Key(engine="0.5.23", placement=Placement.SEPARATE)) == (
        "it was made with engine 0.5.16, and this is engine 0.5.23",
        "it was made with placement shared, and this is placement separate",
    )


def test_flags_are_compared_by_value_where_both_have_them_else_by_their_hash() -> None:
    """What only one version of SGLang has changes the hash; it is no reason where values can be compared."""
    fast, plain = {"tp_size": 8, "speculative_num_steps": 3}, {"tp_size": 8, "dtype": "auto"}
    made = Key(flags="aa", arguments={SPECULATIVE: fast, BASELINE: plain})
    same = Key(flags="bb", arguments={SPECULATIVE: {**fast, "new": 1}, BASELINE: plain})
    assert mismatches(made, same) == ()
    other = Key(
        flags="bb",
        arguments={
            SPECULATIVE: {**fast, "speculative_num_steps": 5},
            BASELINE: {"tp_size": 4, "dtype": None},
        },
    )
    assert mismatches(made, other) == (
        "its speculative engine had speculative_num_steps 3, and this one has speculative_num_steps 5",
        "its baseline engine had tp_size 8, dtype auto, and this one has tp_size 4, dtype null",
    )
    assert mismatches(made, Key(flags="bb")) == ("it was made with flags aa, and this is flags bb",)
    assert mismatches(made, Key(arguments={BASELINE: plain})) == ()


# A cell is predicted from the others of its table. Cells that the measurement itself calls out of line are
# left out of both; at the upper end there is nothing to go on but the last slope.
OUT_OF_LINE = {"unseen": {2}, "seen": {16, 32}}


@pytest.mark.parametrize("table", ["unseen", "seen"])
def test_a_cell_left_out_is_predicted_from_its_neighbours(table: str) -> None:
    base, eagle = (UNSEEN_BASELINE, UNSEEN_EAGLE) if table == "unseen" else (SEEN_BASELINE, SEEN_EAGLE)
    sizes = [n for n in base if n not in OUT_OF_LINE[table]]
    for n in sizes:
        others = [other for other in sizes if other != n]
        left = sweep({m: base[m] for m in others}, {m: eagle[m] for m in others})
        rate, gain = eagle[n]
        baseline = left.tokens_per_second(BASELINE, n) / base[n]
        speculative = left.tokens_per_second(SPECULATIVE, n, gain) / rate
        assert baseline == pytest.approx(1.0, abs=0.11), f"baseline at {n}"
        assert speculative == pytest.approx(1.0, abs=0.25), f"speculative at {n}"
        if n not in (sizes[0], sizes[-1]):
            assert speculative == pytest.approx(1.0, abs=0.21), f"speculative at {n}"


def test_the_sums_of_both_at_once_are_predicted_from_each_alone_and_the_other_rows() -> None:
    for left_out in TOGETHER:
        rest = tuple(cell for cell in TOGETHER if cell is not left_out)
        engines = sweep(UNSEEN_BASELINE, UNSEEN_EAGLE, mixed=rest)
        predicted = engines.mixed_fraction(BASELINE) * engines.tokens_per_second(
            BASELINE, left_out.baseline
        ) + engines.mixed_fraction(SPECULATIVE) * engines.tokens_per_second(SPECULATIVE, left_out.speculative)
        measured = left_out.baseline_rate + left_out.speculative_rate
        assert predicted == pytest.approx(measured, rel=0.10), left_out
