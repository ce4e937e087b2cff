"""Records handed to observers."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from router.core.events import Decision
from router.core.words import DecisionReason, Path


def test_a_decision_is_no_trial_unless_it_says_so() -> None:
    assert Decision(Path.BASELINE, DecisionReason.POLICY).trial is False


def test_decisions_with_equal_fields_are_equal_and_cannot_be_changed() -> None:
    decision = Decision(Path.BASELINE, DecisionReason.PROBE, trial=True)
    assert decision == Decision(Path.BASELINE, DecisionReason.PROBE, True)
    with pytest.raises(FrozenInstanceError):
        decision.trial = False  # type: ignore[misc]
