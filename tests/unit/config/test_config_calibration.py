"""A calibration that is named in the configuration is read and checked with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from router.calibration import dump_calibration
from router.config import ConfigError, load_config
from router.core.calibrated import CalibratedPolicy
from router.core.calibration import Key
from router.core.identity import Fault, Identity, key_of
from router.core.marginal import MarginalPolicy
from router.core.policy import FixedPolicy, ThresholdPolicy
from router.core.words import Path as Way
from router.core.words import Placement
from router.policies import build_policy, doubts
from tests.support.sweeps import linear

ENGINES = "speculative: {url: 'http://127.0.0.1:1'}, baseline: {url: 'http://127.0.0.1:2'}"


def write(
    folder: Path, policy: str, placement: str = "shared", made_for: Placement = Placement.SHARED
) -> Path:
    calibration = replace(linear(12.0), key=Key("m", engine="0.5.16", placement=made_for))
    (folder / "c.yaml").write_text(dump_calibration(calibration))
    file = folder / "config.yaml"
    file.write_text(f"pairs: [{{placement: {placement}, {ENGINES}}}]\npolicy: {policy}\n")
    return file


def test_it_is_found_beside_the_configuration_and_becomes_the_policy(tmp_path: Path) -> None:
    text = (
        "{kind: calibrated, calibration: c.yaml, dwell: 20s, shadow: {kind: calibrated, calibration: c.yaml}}"
    )
    config = load_config(write(tmp_path, text), {})
    assert config.policy.calibration == str(tmp_path / "c.yaml")
    policy = build_policy(config.policy, Placement.SHARED, tuple(Way))
    assert isinstance(policy, CalibratedPolicy)
    assert policy.dwell == 20.0
    assert config.policy.shadow is not None
    assert isinstance(build_policy(config.policy.shadow, Placement.SHARED, tuple(Way)), CalibratedPolicy)


def test_engines_on_gpus_of_their_own_get_the_marginal_rule(tmp_path: Path) -> None:
    file = write(tmp_path, "{kind: calibrated, calibration: c.yaml}", "separate", Placement.SEPARATE)
    policy = build_policy(load_config(file, {}).policy, Placement.SEPARATE, tuple(Way))
    assert isinstance(policy, MarginalPolicy)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "{kind: calibrated, calibration: none.yaml}",
            "policy.calibration: names a file that cannot be used",
        ),
        (
            "{kind: calibrated, calibration: config.yaml}",
            "policy.calibration: names a file that cannot be used",
        ),
        (
            "{shadow: {kind: calibrated, calibration: none.yaml}}",
            "policy.shadow.calibration: names a file that cannot be used",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_a_fault_of_the_configuration(
    tmp_path: Path, policy: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(write(tmp_path, policy), {})


def test_one_made_for_another_placement_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = write(tmp_path, "{kind: calibrated, calibration: c.yaml}", "separate")
    with pytest.raises(ConfigError, match="made with placement shared, and this is placement separate"):
        load_config(file, {})


def test_engines_that_are_others_than_those_measured_are_doubted() -> None:
    engines = replace(linear(12.0), key=Key("m", engine="0.5.16", placement=Placement.SHARED))
    policy = CalibratedPolicy(engines)
    same = {path: Identity(model="m", version="0.5.16") for path in Way}
    assert doubts(policy, same) == ()
    assert doubts(policy, {}) == ()
    newer = {**same, Way.BASELINE: Identity(model="m", version="0.5.23")}
    for each in (policy, MarginalPolicy(policy)):
        (problem,) = doubts(each, newer)
        assert problem.fault is Fault.CALIBRATION_DIFFERS
        assert "made with engine 0.5.16, and this is engine 0.5.23" in problem.text
    assert doubts(ThresholdPolicy(8, 3, 1.0, 1.0), newer) == ()
    assert doubts(FixedPolicy(Way.BASELINE, "pinned"), newer) == ()


FAST = Identity(draft="m-eagle3", arguments={"tp_size": 8, "speculative_num_steps": 3})
PLAIN = Identity(arguments={"tp_size": 8, "dtype": "auto"})


def reasons(key: Key, told: dict[Way, Identity]) -> list[str]:
    found = doubts(CalibratedPolicy(replace(linear(12.0), key=key)), told)
    end = "; policy.high and policy.low decide instead"
    assert all(problem.text.endswith(end) for problem in found)
    return [problem.text.removesuffix(end) for problem in found]


def test_the_draft_and_the_flags_that_differ_are_named() -> None:
    key = key_of(FAST, PLAIN, Placement.SHARED)
    assert reasons(key, {Way.SPECULATIVE: FAST, Way.BASELINE: PLAIN}) == []
    changed = {
        Way.SPECULATIVE: replace(FAST, draft="m-other", arguments={"tp_size": 8, "speculative_num_steps": 5}),
        Way.BASELINE: replace(PLAIN, arguments={"tp_size": 4, "dtype": "auto"}),
    }
    draft = "it was made with draft m-eagle3, and this is draft m-other"
    steps = "its speculative engine had speculative_num_steps 3, and this one has speculative_num_steps 5"
    width = "its baseline engine had tp_size 8, and this one has tp_size 4"
    assert reasons(key, changed) == [
        f"the calibration does not hold for the baseline engine: {width}",
        f"the calibration does not hold for the speculative engine: {draft}",
        f"the calibration does not hold for the speculative engine: {steps}",
    ]
    # What is known is enough: nobody waits for an engine that is down.
    del changed[Way.SPECULATIVE]
    assert len(reasons(key, changed)) == 1


def test_a_hash_alone_is_compared_once_both_engines_are_known() -> None:
    """It is of both engines together, so one of them alone proves nothing."""
    made = key_of(FAST, PLAIN, Placement.SHARED)
    told = {Way.SPECULATIVE: FAST, Way.BASELINE: PLAIN}
    assert reasons(Key(flags=made.flags, placement=Placement.SHARED), told) == []
    other = Key(flags="as in July", placement=Placement.SHARED)
    assert reasons(other, told) == [
        "the calibration does not hold for the engines: "
        f"it was made with flags as in July, and this is flags {made.flags}"
    ]
    assert reasons(other, {Way.BASELINE: PLAIN}) == []
