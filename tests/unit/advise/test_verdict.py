"""Ten situations in which the right layout can be argued."""

from __future__ import annotations

import json

import pytest

from router.advise.means import Means
from router.advise.verdict import Advice, Layout, advise
from router.cli.advise import AdviseOptions, run_advise
from router.core.calibration import Calibration
from router.core.words import Placement
from router.replay.contenders import contenders
from router.replay.load import read_load
from router.replay.plant import load_plant
from router.replay.run import play
from router.replay.traffic import shares
from tests.support.sweeps import linear

FITS = Means(fits_twice=True, adaptive=False)


def plant(name: str) -> Calibration:
    return load_plant(name, Placement.SHARED)[1]


def cost(advice: Advice, layout: Layout) -> float:
    found = next(each for each in advice.options if each.layout is layout)
    assert found.seconds_per_token is not None
    return found.seconds_per_token


def test_speculation_that_never_wins_leaves_the_baseline() -> None:
    """The parallel benchmark of a large model on PCIe: 77 against 93 tok/s alone, 338 against 784 at 70.

    No layout with a speculative engine can beat the baseline at any load, so the second engine is only cost.
    """
    advice = advise(plant("seed"), FITS)
    assert advice.layout is Layout.BASELINE
    assert advice.below == 0.0
    assert any("accept length of" in change for change in advice.changes)


def test_speculation_that_always_wins_needs_no_second_engine() -> None:
    """A head with accept length 3 on an H200 beats the baseline to 128 requests: nothing to switch to."""
    advice = advise(plant("h200"), FITS, accept_length=3.0)
    assert advice.layout is Layout.SPECULATIVE
    assert advice.below == 1.0


def test_a_load_that_is_never_high_needs_no_baseline() -> None:
    """A team's chat server with 1 to 4 requests in flight is always below the crossover of 14."""
    advice = advise(plant("h200"), FITS, {1: 5, 2: 3, 4: 1})
    assert advice.layout is Layout.SPECULATIVE


def test_a_load_that_is_never_low_needs_no_speculation() -> None:
    """A batch service with 32 to 128 requests in flight is always above it."""
    advice = advise(plant("h200"), FITS, {32: 1, 64: 1, 128: 1})
    assert advice.layout is Layout.BASELINE


def test_a_day_from_quiet_to_busy_pays_for_two_engines() -> None:
    """Half of the requests at 2 in flight, half at 64: either engine alone is wrong for half of them."""
    advice = advise(plant("strong"), FITS, {2: 1, 64: 1})
    assert advice.layout is Layout.SHARED
    single = min(cost(advice, Layout.SPECULATIVE), cost(advice, Layout.BASELINE))
    assert cost(advice, Layout.SHARED) < 0.95 * single
    assert advice.below == 0.5


def test_a_model_that_cannot_be_loaded_twice_runs_as_one_adaptive_engine() -> None:
    """72 of 95.6 GiB for the weights: two engines do not fit, but one that stops speculating by itself does.

    Most requests come at low load, so its tax at high load weighs less than what speculation gains.
    """
    advice = advise(plant("strong"), Means(fits_twice=False, adaptive=True), {2: 4, 20: 1})
    assert advice.layout is Layout.ADAPTIVE
    refused = next(each for each in advice.options if each.layout is Layout.SHARED)
    assert "do not fit" in refused.why_not
    assert any(change.startswith("room for two engines") for change in advice.changes)


def test_without_room_and_without_adaptive_the_better_single_engine_is_left() -> None:
    """Neither two engines nor an adaptive one: most requests come at high load, so it is the baseline."""
    advice = advise(plant("strong"), Means(fits_twice=False, adaptive=False), {2: 1, 64: 3})
    assert advice.layout is Layout.BASELINE


def test_kv_pools_that_are_halved_can_cost_more_than_the_tax() -> None:
    """Two engines leave room for 12 long requests each, one engine for 64.

    At 64 in flight two engines work on 12 at a time, an adaptive one on all, and it loses only its tax.
    """
    means = Means(True, False, True, kv_tokens=12 * 8000, kv_tokens_alone=64 * 8000, request_tokens=8000)
    advice = advise(plant("strong"), means, {2: 2, 64: 1})
    assert advice.layout is Layout.ADAPTIVE
    plenty = Means(True, False, True, kv_tokens=64 * 8000, kv_tokens_alone=64 * 8000, request_tokens=8000)
    assert advise(plant("strong"), plenty, {2: 2, 64: 1}).layout is Layout.SHARED


def test_two_sets_of_gpus_at_a_middle_load_are_two_pools() -> None:
    """20 in flight and no room for two engines on one set of GPUs.

    10 on each of two equal engines give 1,000 tok/s of either kind; 4 on the speculative set and 16 on the
    other give 400 + 667.
    """
    advice = advise(plant("strong"), Means(False, True, False), {20: 1})
    assert advice.layout is Layout.POOLS


def test_a_steady_load_at_the_crossover_is_not_worth_a_second_engine() -> None:
    """At 10 in flight both give 500 tok/s: the simplest layout that does, whatever else is possible."""
    advice = advise(plant("strong"), Means(True, True, True), {5: 1})
    assert advice.layout is not Layout.POOLS
    assert advise(plant("strong"), Means(True, False, True), {10: 1}).layout is Layout.BASELINE


def test_not_one_long_request_fits() -> None:
    advice = advise(plant("h200"), Means(True, kv_tokens=1000, request_tokens=8000))
    refused = next(each for each in advice.options if each.layout is Layout.SHARED)
    assert "not one long request" in refused.why_not


def test_shares_need_not_add_up_but_must_make_sense() -> None:
    engines = linear(12.0)
    assert advise(engines, FITS, {1: 3, 50: 1}).loads[0].share == 0.75
    for traffic in ({}, {0: 1.0}, {1: -1.0, 2: 2.0}):
        with pytest.raises(ValueError, match="traffic is shares"):
            advise(engines, FITS, traffic)


def test_what_is_assumed_is_said() -> None:
    notes = " ".join(advise(linear(12.0)).notes)
    assert "no traffic" in notes
    assert "assumed" in notes
    assert "KV memory" in notes
    assert advise(linear(12.0), Means(True, False, True, 1, 1, 1), {1: 1}).notes == ()


def test_traffic_is_counted_by_what_was_in_flight_at_each_arrival() -> None:
    profile, calibration = load_plant("h200", Placement.SHARED)
    run = play(contenders(profile, calibration)[1], read_load("steady:3", duration=5.0), 0)
    found = shares(run)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found[3] > 0.9


def test_the_command_says_verdict_numbers_and_what_would_change_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_advise(AdviseOptions("strong", "day:0.1-4/s:2m", 1.0, None, FITS, as_json=False)) == 0
    out = capsys.readouterr().out
    assert "two engines shared" in out
    assert "Would change it" in out
    assert run_advise(AdviseOptions("seed", None, 1.0, None, Means(), as_json=True)) == 0
    assert json.loads(capsys.readouterr().out)["layout"] == "baseline only"
    assert run_advise(AdviseOptions("none.yaml", None, 1.0, None, Means(), as_json=True)) == 2
    assert "none.yaml" in capsys.readouterr().err
