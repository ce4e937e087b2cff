"""What is said of decisions."""

from __future__ import annotations

import pytest

from router.core.policy import FixedPolicy, PolicyState, Switch, ThresholdPolicy
from router.core.sentences import why_active, why_switched
from router.core.words import Path, SwitchReason

THRESHOLD = ThresholdPolicy(high=8, low=3, dwell=10.0, smoothing=2.0)


def switch(reason: SwitchReason, excess: int = 0) -> Switch:
    return Switch(1.0, Path.SPECULATIVE, Path.BASELINE, 9, 6.5, reason, excess)


@pytest.mark.parametrize("reason", SwitchReason)
def test_every_switch_has_a_sentence(reason: SwitchReason) -> None:
    said = why_switched(switch(reason))
    assert said
    assert "{" not in said


def test_a_switch_names_its_load_and_what_of_it_is_foreign() -> None:
    assert why_switched(switch(SwitchReason.HIGH)) == "load rose to 9 in flight"
    assert why_switched(switch(SwitchReason.HIGH, 4)) == "load rose to 9 in flight, 4 of them not ours"
    assert why_switched(switch(SwitchReason.FAILOVER)) == "the speculative engine could not serve"


@pytest.mark.parametrize(
    ("policy", "last", "pin", "said"),
    [
        (FixedPolicy(Path.SPECULATIVE, "single"), None, None, "it is the only engine"),
        (FixedPolicy(Path.SPECULATIVE, "pinned"), None, None, "the configuration pins it"),
        (THRESHOLD, None, None, "load has stayed below 8 in flight since the start"),
        (THRESHOLD, switch(SwitchReason.UNPIN), None, "an operator took the pin away"),
        (THRESHOLD, switch(SwitchReason.HIGH), "test", "pinned by an operator (test)"),
        (FixedPolicy(Path.SPECULATIVE, "other"), None, None, "speculative since the start"),
    ],
)
def test_the_active_path_has_one_reason(
    policy: ThresholdPolicy | FixedPolicy, last: Switch | None, pin: str | None, said: str
) -> None:
    sentence = why_active(policy, PolicyState(), last, pin)
    assert sentence.startswith("New requests go to speculative")
    assert sentence.endswith(said + ".")
