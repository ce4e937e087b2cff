"""Policies from the configuration, and whether a calibration holds for the engines that are there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from router.calibration import load_calibration
from router.config.policy import Policy as PolicyConfig
from router.config.policy import PolicyRules
from router.core.arguments import flags_hash
from router.core.calibrated import CalibratedPolicy
from router.core.calibration import Key, mismatches
from router.core.identity import Fault, Identity, Problem, key_of_engine
from router.core.marginal import MarginalPolicy
from router.core.policy import FixedPolicy, Policy, ThresholdPolicy
from router.core.words import Path, Placement


def build_policy(rules: PolicyRules, placement: Placement, paths: tuple[Path, ...]) -> Policy:
    """The policy that the configuration names, for a pair that has these paths.

    Raises:
        CalibrationError: its calibration cannot be used.
    """
    if placement is Placement.SINGLE:
        return FixedPolicy(paths[0], "single")
    if rules.path is not None:
        return FixedPolicy(rules.path, "pinned")
    if rules.calibration is None:
        return build_threshold(rules)
    calibrated = CalibratedPolicy(
        load_calibration(FilePath(rules.calibration)), rules.smoothing, rules.half_life, rules.dwell
    )
    return MarginalPolicy(calibrated) if placement is Placement.SEPARATE else calibrated


def build_threshold(rules: PolicyRules) -> ThresholdPolicy:
    """The policy that needs no calibration."""
    return ThresholdPolicy(rules.high, rules.low, rules.dwell, rules.smoothing)


def policy_from_rules(rules: Mapping[str, Any]) -> Policy:
    """The policy that a decision log's rules describe. Raises ValueError, KeyError."""
    placement, paths = Placement(rules["placement"]), tuple(Path(path) for path in rules["paths"])
    section = {key: value for key, value in rules.items() if key not in ("placement", "paths")}
    return build_policy(PolicyConfig.model_validate(section), placement, paths)


def doubts(policy: Policy, told: Mapping[Path, Identity]) -> tuple[Problem, ...]:
    """Why the policy's calibration does not hold for engines that say this of themselves."""
    rules = policy.rules if isinstance(policy, MarginalPolicy) else policy
    if not isinstance(rules, CalibratedPolicy):
        return ()
    key = rules.calibration.key
    reasons = {
        f"the calibration does not hold for the {path} engine: {reason}"
        for path, one in told.items()
        for reason in mismatches(key, key_of_engine(path, one))
    }
    if not key.arguments:  # nothing but the hash of both engines' flags
        found = Key(flags=flags_hash({path: one.arguments for path, one in told.items()}))
        both = mismatches(Key(flags=key.flags), found)
        reasons |= {f"the calibration does not hold for the engines: {reason}" for reason in both}
    return tuple(
        Problem(Fault.CALIBRATION_DIFFERS, f"{reason}; policy.high and policy.low decide instead")
        for reason in sorted(reasons)
    )
