"""Plans from configurations made by hand, with the shipped profiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from router.launch.checkpoint import read_model
from router.launch.gpus import gpus_by_hand
from router.launch.plan import ModelShape, Plan, Refusal, Wishes, make_plan
from router.launch.profile_files import Profiles
from tests.unit.launch.models import write_checkpoint

PROFILES = Profiles()


def shape(folder: FilePath, name: str, config: dict[str, Any], total_size: int) -> ModelShape:
    """What is read from a checkpoint of that name."""
    return read_model(write_checkpoint(folder / name, config, total_size))


def planned(
    model: ModelShape,
    draft: ModelShape | None,
    gpus: str,
    profile: str = "eagle3-chain",
    hardware: str = "generic",
    **wishes: Any,
) -> Plan | Refusal:
    """Plan on GPUs given by hand."""
    return make_plan(
        model,
        draft,
        gpus_by_hand(gpus),
        replace(Wishes(tp=8), **wishes),
        PROFILES.speculation(profile),
        PROFILES.hardware(hardware),
        PROFILES.speculation("adaptive"),
    )


def fits(found: Plan | Refusal) -> Plan:
    """The plan; a refusal fails the test with its reason."""
    assert isinstance(found, Plan), found.reason
    return found


def refused(found: Plan | Refusal) -> Refusal:
    """The refusal; a plan fails the test."""
    assert isinstance(found, Refusal), found.engines
    return found
