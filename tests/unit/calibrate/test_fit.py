"""A measurement becomes a calibration: repeats, groups, drains, mixed cells."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.calibrate.derive import derive
from router.calibrate.fit import Z90, fit, noise
from router.calibrate.result import assess
from router.core.bootstrap import interval_of, sweeps
from router.core.calibration import Cell, MixedCell, Reach
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
from tests.unit.calibrate.build import GROUP, KEY, alone, both, measured, swept, table, together

SIZES = (1, 2, 4, 8, 16, 32, 64)


def test_a_table_fits_as_it_does_without_the_detour() -> None:
    """The calibration of a measured table is the one whose crossover the core's tests hold against it."""
    found = fit(table(SEEN_BASELINE, SEEN_EAGLE, TOGETHER))
    straight = sweep(SEEN_BASELINE, SEEN_EAGLE, mixed=TOGETHER)
    assert found.break_even == pytest.approx(straight.break_even)
    assert found.mixed == straight.mixed
    assert found.key == KEY
    assert found.speculative.prefill_seconds_per_token == 2.2e-5
    assert found.baseline.max_running_requests == 256
    assert (found.workload.prompt_tokens, found.workload.output_tokens) == (40.0, 160.0)


def test_visits_with_one_group_are_repeats_and_each_group_has_its_cell() -> None:
    cells = [
        alone(Path.SPECULATIVE, 4, 300.0, 2.0),
        alone(Path.SPECULATIVE, 4, 310.0, 2.1),
        alone(Path.SPECULATIVE, 4, 200.0, 1.4, group="code"),
        alone(Path.BASELINE, 4, 250.0),
        alone(Path.BASELINE, 4, 255.0),
    ]
    found = fit(measured(cells))
    assert found.speculative.cells == (Cell(4, (300.0, 310.0), (2.0, 2.1)), Cell(4, (200.0,), (1.4,)))
    assert found.baseline.cells == (Cell(4, (250.0, 255.0)),)
    assert fit(measured(cells), GROUP).speculative.cells == (Cell(4, (300.0, 310.0), (2.0, 2.1)),)


def test_drains_beside_a_working_engine_count_and_others_only_without_them() -> None:
    """A switch drains one engine while the other serves: an engine that drains alone is faster than that."""
    lone = replace(alone(Path.BASELINE, 1, 100.0), drain_seconds=2.0)
    cells = [lone, alone(Path.SPECULATIVE, 1, 120.0, 2.0)]
    assert fit(measured(cells)).baseline.drain_seconds == pytest.approx((2.0 / 0.52,))
    mixed = both(MixedCell(1, 1, 50.0, 80.0), Path.BASELINE, 5.0)
    found = fit(measured(cells, [mixed]))
    assert found.baseline.drain_seconds == (5.0,)
    assert found.speculative.drain_seconds == ()
    apart = replace(measured(cells), key=replace(KEY, placement=Placement.SEPARATE))
    assert fit(apart).baseline.drain_seconds == (2.0,)


def test_a_mixed_cell_of_an_easier_workload_is_seen_at_the_accept_length_of_the_sweep() -> None:
    """An engine that keeps 70 % of its cycles keeps 70 %, whatever a cycle gains."""
    engines = linear(12.0)
    rate = 0.7 * engines.tokens_per_second(Path.SPECULATIVE, 8, 2.6)
    cell = replace(both(MixedCell(8, 8, 300.0, rate)), accept_length=2.6)
    found = fit(replace(swept(engines, SIZES), both=(cell,)))
    assert found.mixed_fraction(Path.SPECULATIVE) == pytest.approx(0.7)


def test_what_working_together_costs_is_what_was_measured() -> None:
    """Both at 128 gave 22274 tok/s, the baseline alone at 256 26382: 16 % less."""
    found = derive(replace(table(UNSEEN_BASELINE, UNSEEN_EAGLE), both=together()), Random(0).random, 5)
    both_at_128 = found.together[4]
    assert both_at_128.loss == pytest.approx(1 - 22274 / 26382, abs=1e-6)
    assert both_at_128.keeps[Path.BASELINE] == pytest.approx(0.57, abs=0.01)
    assert both_at_128.keeps[Path.SPECULATIVE] == pytest.approx(0.69, abs=0.02)
    assert not both_at_128.beyond
    assert found.calibration.dwell() == 10.0
    assert set(found.calibration.baseline.drain_seconds) == {3.1}


def test_the_noise_within_windows_is_a_standard_deviation() -> None:
    cells = [alone(Path.BASELINE, n, 100.0, spread=0.03) for n in (1, 2)]
    found = noise(measured([*cells, alone(Path.SPECULATIVE, 1, 1.0, 2.0)]))
    assert found == {Path.BASELINE: pytest.approx(0.03 / Z90), Path.SPECULATIVE: 0.0}


@pytest.mark.parametrize("wanted", [2.5, 6.0, 12.0, 40.0])
@pytest.mark.parametrize("repeats", [1, 3])
def test_exact_data_of_a_known_model_give_its_crossover(wanted: float, repeats: int) -> None:
    engines = linear(wanted, limit=64)
    found = fit(swept(engines, SIZES, repeats=repeats)).crossover(2.0)
    assert found.reach is Reach.PART
    assert found.n == pytest.approx(wanted, rel=0.02)


def test_the_interval_holds_the_crossover_about_as_often_as_it_says() -> None:
    """90 %; of 40 sweeps fewer than 31 would have a chance below 1 in 100."""
    engines = linear(12.0, limit=64)
    inside = 0
    for seed in range(40):
        found = swept(engines, SIZES, noise=0.03, repeats=2, seed=seed)
        made_up = sweeps(fit(found), Random(seed).random, 40, noise(found))
        bounds = interval_of(made_up, 2.0)
        inside += bounds.low <= 12.0 <= bounds.high
    assert inside >= 31


@settings(max_examples=40, deadline=None)
@given(
    wanted=st.floats(1.0, 40.0),
    off=st.floats(0.0, 1.5),
    repeats=st.integers(1, 3),
    sizes=st.sets(st.sampled_from((4, 8, 16, 32)), min_size=2).map(lambda found: (1, *sorted(found))),
    seed=st.integers(0, 1000),
)
def test_no_noise_however_large_breaks_the_verdict(
    wanted: float, off: float, repeats: int, sizes: tuple[int, ...], seed: int
) -> None:
    """Noise makes a verdict unsure or wrong, but what is said is always finite and in order."""
    found = assess(
        swept(linear(wanted, limit=64), sizes, noise=off, repeats=repeats, seed=seed), Random(seed).random, 8
    )
    assert found.derived is not None
    for at in (found.derived.at, *found.derived.lengths):
        assert 0 <= at.interval.low <= at.interval.high <= sizes[-1]
        assert 0 <= at.crossover.n <= sizes[-1]
    assert all(math.isfinite(load.gain) for load in found.derived.loads)
    assert len(found.derived.lengths) <= 24
    assert "nan" not in " ".join((found.verdict.sentence, *found.verdict.reasons))
