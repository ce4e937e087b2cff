"""The numbers behind the next decision, and how they are told."""

from __future__ import annotations

import pytest

from router.core.calibrated import CalibratedPolicy
from router.core.insight import insight
from router.core.marginal import MarginalPolicy
from router.core.policy import PolicyState, ThresholdPolicy
from router.core.sentences import why_switched
from router.core.words import Path
from tests.support.sweeps import linear
from tests.support.world import World


def test_it_tells_what_the_policy_reckons_with() -> None:
    engines = linear(12.0)
    pair = World(CalibratedPolicy(engines), engines, 1.7, 4)
    pair.run(120.0)
    for policy in (pair.policy, MarginalPolicy(CalibratedPolicy(engines))):
        known = insight(policy, pair.state, 4, pair.now + 5.0)
        assert known is not None
        assert known.calibrated_crossover == pytest.approx(12.0, rel=0.1)
        assert known.crossover < known.calibrated_crossover
        assert known.high is not None
        assert known.low is not None
        assert known.low < known.high
        assert known.accept_length == pytest.approx(1.7, abs=0.02)
        assert known.accept_length_age == pytest.approx(5.0, abs=1.1)
        assert known.break_even == pytest.approx(engines.break_even_at(4), rel=0.02)
        assert known.scales == {path: pytest.approx(1.0, rel=0.02) for path in Path}


def test_there_is_nothing_to_tell_without_a_calibration_or_before_the_first_look() -> None:
    assert insight(ThresholdPolicy(8, 3, 1.0, 1.0), PolicyState(), 1, 0.0) is None
    assert insight(CalibratedPolicy(linear(12.0)), PolicyState(), 1, 0.0) is None


def test_a_calibrated_switch_says_at_which_crossover_and_for_what_gain() -> None:
    engines = linear(12.0)
    pair = World(CalibratedPolicy(engines), engines, 2.0, 100)
    pair.run(60.0)
    assert "(crossover 1" in why_switched(pair.switches[0])
    assert "at accept length 2.00, +" in why_switched(pair.switches[0])
