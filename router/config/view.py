"""What operators are shown of a configuration."""

from __future__ import annotations

from typing import Any

from router.config.policy import DEFAULT_HIGH, DEFAULT_LOW
from router.config.schema import Config
from router.core.words import Placement


def resolved(config: Config) -> dict[str, Any]:
    """The configuration with every default, as plain values: durations and sizes readable, secrets masked."""
    return config.model_dump(mode="json")


def placeholder_thresholds(config: Config) -> bool:
    """Whether the thresholds that decide are the ones that nobody measured on this machine."""
    policy = config.policy
    decide = policy.kind == "threshold" and config.pairs[0].placement is not Placement.SINGLE
    return decide and (policy.high, policy.low) == (DEFAULT_HIGH, DEFAULT_LOW)
