"""From the section `launch` to what a plan is made from: checkpoints read, GPUs asked, profiles loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from router.config.launch import EngineAdditions, Launch
from router.config.schema import Config
from router.core.words import Path, Placement
from router.launch.checkpoint import read_model
from router.launch.gpus import gpu_names, gpus_by_hand, gpus_of_driver
from router.launch.plan import (
    EngineExtras,
    GpuMemory,
    HardwareProfile,
    ModelShape,
    PerPath,
    Plan,
    Ports,
    Refusal,
    Reserves,
    SpeculationProfile,
    Wishes,
    make_plan,
)
from router.launch.plan.make import without_options
from router.launch.profile_files import AUTO, Profiles

ADAPTIVE = "adaptive"
PLAIN = "baseline"


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that `make_plan` takes."""

    model: ModelShape
    draft: ModelShape | None
    gpus: tuple[GpuMemory, ...]
    wishes: Wishes
    profile: SpeculationProfile
    hardware: HardwareProfile
    adaptive: SpeculationProfile
    plain: SpeculationProfile

    def plan(self) -> Plan | Refusal:
        """Plan it."""
        return make_plan(
            self.model, self.draft, self.gpus, self.wishes, self.profile, self.hardware, self.adaptive
        )

    def alone(self) -> dict[str, Plan | Refusal]:
        """What one engine comes to that has these GPUs to itself, by profile: plain, and adaptive."""
        wishes = replace(self.wishes, placement=Placement.SINGLE, policy_high=None, kv_share=None)
        return {
            each.name: without_options(self.model, self.draft, self.gpus, wishes, each, self.hardware)
            for each in (self.plain, self.adaptive)
        }


def read_request(
    launch: Launch,
    placement: Placement,
    policy_high: int | None,
    driver: Callable[[], tuple[GpuMemory, ...]] = gpus_of_driver,
) -> Request:
    """Read what the section names; with `gpus: auto` ask the driver. Raises LaunchFileError."""
    profiles = Profiles(FilePath(launch.profile_dir) if launch.profile_dir else None)
    profile = profiles.speculation(launch.profile)
    model = read_model(FilePath(launch.model))
    draft = read_model(FilePath(launch.draft)) if launch.draft else None
    gpus = driver() if launch.gpus == AUTO else gpus_by_hand(launch.gpus)
    return Request(
        model=model,
        draft=draft,
        gpus=gpus,
        wishes=wishes_of(launch, placement, policy_high),
        profile=profile,
        hardware=profiles.hardware(launch.hardware, gpu_names(gpus)),
        adaptive=profiles.speculation(ADAPTIVE),
        plain=profiles.speculation(PLAIN),
    )


def wishes_of(launch: Launch, placement: Placement, policy_high: int | None) -> Wishes:
    """The section's numbers."""
    return Wishes(
        tp=launch.tp,
        placement=placement,
        base_gpu=PerPath(launch.base_gpu.speculative, launch.base_gpu.baseline),
        context=launch.context,
        concurrency=PerPath(launch.concurrency.speculative, launch.concurrency.baseline),
        kv_share=launch.kv_share,
        kv_dtype=launch.kv_dtype,
        kv_cell=launch.kv_cell,
        chunked_prefill=launch.chunked_prefill,
        max_queued=launch.max_queued,
        first=launch.first,
        reserves=Reserves(launch.reserves.context, launch.reserves.workspace, launch.reserves.spare),
        policy_high=policy_high,
        allow_uneven=launch.allow_uneven,
        served_name=launch.served_model_name,
        host=launch.host,
        extras=PerPath(_extras(launch.engines.speculative), _extras(launch.engines.baseline)),
        version=launch.sglang.version,
    )


def deciding_high(config: Config) -> int | None:
    """The upper watermark, where a policy decides between two engines."""
    decides = config.policy.kind != "pinned" and config.pairs[0].placement is not Placement.SINGLE
    return config.policy.high if decides else None


def ports_of(launch: Launch, path: Path) -> Ports:
    """Where an engine listens."""
    ports = launch.ports.of(path)
    return Ports(ports.http, ports.nccl)


def _extras(additions: EngineAdditions) -> EngineExtras:
    return EngineExtras(additions.args, additions.env)
