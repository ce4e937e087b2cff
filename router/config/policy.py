"""The section `policy`: what decides about the active path."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ValidationInfo, field_validator

from router.config.errors import Invalid
from router.config.fields import FileName, one_of, whole
from router.config.section import Section
from router.config.units import Duration, PositiveDuration
from router.core.words import Path

DEFAULT_HIGH = 8
DEFAULT_LOW = 3


class PolicyRules(Section):
    """One policy. `high`, `low`: of kind threshold, which also decides where a calibration does not hold."""

    kind: Annotated[
        Literal["threshold", "calibrated", "pinned"], one_of("threshold", "calibrated", "pinned")
    ] = "threshold"
    high: Annotated[int, whole(2)] = DEFAULT_HIGH
    low: Annotated[int, whole(1)] = DEFAULT_LOW
    dwell: Duration = 10.0
    smoothing: Duration = 2.0
    path: Annotated[Path | None, one_of(*Path, nullable=True)] = None
    calibration: FileName = None
    half_life: PositiveDuration = 300.0

    @field_validator("low")
    @classmethod
    def _below_high(cls, low: int, info: ValidationInfo) -> int:
        high = info.data.get("high")
        if high is not None and low >= high:
            raise Invalid(f"is not below policy.high ({high})", f"0 < low < high: from 1 to {high - 1}")
        return low

    @field_validator("path")
    @classmethod
    def _only_pinned(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        kind = info.data.get("kind")
        if kind == "pinned" and path is None:
            raise Invalid("is needed by policy.kind pinned", ", ".join(Path))
        if kind not in (None, "pinned") and path is not None:
            raise Invalid(f"has no meaning with policy.kind {kind}", "null, or policy.kind pinned")
        return path

    @field_validator("calibration")
    @classmethod
    def _only_calibrated(cls, calibration: str | None, info: ValidationInfo) -> str | None:
        kind = info.data.get("kind")
        if kind == "calibrated" and calibration is None:
            raise Invalid(
                "is needed by policy.kind calibrated",
                "a calibration file, as spec-router calibrate writes it",
            )
        if kind not in (None, "calibrated") and calibration is not None:
            raise Invalid(f"has no meaning with policy.kind {kind}", "null, or policy.kind calibrated")
        return calibration


class Policy(PolicyRules):
    """What decides, and `shadow`: a second policy whose switches are only counted and logged."""

    shadow: PolicyRules | None = None
