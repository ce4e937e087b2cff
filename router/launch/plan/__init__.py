"""The memory plan of two engines on one set of GPUs. Pure: numbers in, plan out."""

from __future__ import annotations

from router.launch.plan.command import Command, Ports, engine_command
from router.launch.plan.make import make_plan
from router.launch.plan.profile import HardwareProfile, RefusedFlag, SpeculationProfile, Tier
from router.launch.plan.result import EnginePlan, Kind, Option, Plan, Refusal, SecondStart
from router.launch.plan.second import second_fraction
from router.launch.plan.shapes import ForeignProcess, GpuMemory, Gqa, Mla, ModelShape
from router.launch.plan.wishes import EngineExtras, PerPath, Reserves, Wishes

__all__ = [
    "Command",
    "EngineExtras",
    "EnginePlan",
    "ForeignProcess",
    "GpuMemory",
    "Gqa",
    "HardwareProfile",
    "Kind",
    "Mla",
    "ModelShape",
    "Option",
    "PerPath",
    "Plan",
    "Ports",
    "Refusal",
    "RefusedFlag",
    "Reserves",
    "SecondStart",
    "SpeculationProfile",
    "Tier",
    "Wishes",
    "engine_command",
    "make_plan",
    "second_fraction",
]
