"""What can be refused before any memory is counted."""

from __future__ import annotations

from collections.abc import Iterator

from router.core.words import Path, Placement
from router.launch.plan.profile import HardwareProfile, SpeculationProfile, profile_problem
from router.launch.plan.result import Kind, Refusal
from router.launch.plan.shapes import GpuMemory, ModelShape, parallelism_problem
from router.launch.plan.wishes import Wishes

PLANNED_FLAGS = {
    "--model-path": "launch.model",
    "--model": "launch.model",
    "--served-model-name": "launch.served_model_name",
    "--host": "launch.host",
    "--port": "launch.ports",
    "--nccl-port": "launch.ports",
    "--tp-size": "launch.tp",
    "--tp": "launch.tp",
    "--tensor-parallel-size": "launch.tp",
    "--base-gpu-id": "launch.base_gpu",
    "--context-length": "launch.context",
    "--max-running-requests": "launch.concurrency",
    "--max-total-tokens": "launch.kv_share",
    "--max-queued-requests": "launch.max_queued",
    "--mem-fraction-static": "launch.kv_share",
    "--chunked-prefill-size": "launch.chunked_prefill",
    "--cuda-graph-max-bs-decode": "launch.concurrency",
    "--kv-cache-dtype": "launch.kv_dtype",
    "--speculative-algorithm": "launch.profile",
    "--speculative-num-steps": "launch.profile",
    "--speculative-eagle-topk": "launch.profile",
    "--speculative-num-draft-tokens": "launch.profile",
    "--speculative-draft-model-path": "launch.draft",
    "--speculative-draft-model": "launch.draft",
    "--speculative-adaptive": "launch.profile",
    "--speculative-adaptive-config": "launch.profile",
    "--api-key": "pairs[].speculative.api_key and pairs[].baseline.api_key",
    "--admin-api-key": "pairs[].speculative.admin_api_key and pairs[].baseline.admin_api_key",
}
"""What the plan sets itself, and the key that decides it."""

PLANNED_ENV = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SGLANG_TIMEOUT_KEEP_ALIVE"}


def first_problem(
    model: ModelShape,
    draft: ModelShape | None,
    gpus: tuple[GpuMemory, ...],
    wishes: Wishes,
    profile: SpeculationProfile,
    hardware: HardwareProfile,
) -> Refusal | None:
    """The first thing that is wrong, or None."""
    found = (
        *_profile(profile, draft, wishes),
        *_model(model, draft, wishes),
        *_gpus(gpus, wishes, profile),
        *_policy(wishes),
        *_flags(profile, hardware, wishes),
    )
    return found[0] if found else None


def _profile(profile: SpeculationProfile, draft: ModelShape | None, wishes: Wishes) -> Iterator[Refusal]:
    problem = profile_problem(profile)
    if problem:
        yield Refusal(Kind.PROFILE, f"profile {profile.name}: {problem}")
    if wishes.placement not in profile.placements:
        allowed = ", ".join(profile.placements)
        yield Refusal(
            Kind.PROFILE, f"profile {profile.name} is for placement {allowed}, not {wishes.placement.value}"
        )
    if profile.algorithm is None and wishes.placement is not Placement.SINGLE:
        yield Refusal(Kind.PROFILE, f"profile {profile.name} does not speculate; that is placement single")
    if profile.draft_model and draft is None:
        yield Refusal(Kind.PROFILE, f"profile {profile.name} needs a draft model: launch.draft or --draft")


def _model(model: ModelShape, draft: ModelShape | None, wishes: Wishes) -> Iterator[Refusal]:
    for shape in (model, draft):
        problem = parallelism_problem(shape, wishes.tp) if shape else None
        if problem:
            yield Refusal(Kind.LIMITS, problem)
    if wishes.context > model.max_context:
        yield Refusal(
            Kind.LIMITS,
            f"context {wishes.context} is above the {model.max_context} tokens that {model.name} knows; "
            "SGLang refuses to start",
        )


def _gpus(gpus: tuple[GpuMemory, ...], wishes: Wishes, profile: SpeculationProfile) -> Iterator[Refusal]:
    own = gpu_indices(wishes, profile)
    present = {gpu.index for gpu in gpus}
    for path, indices in own:
        missing = [index for index in indices if index not in present]
        if missing:
            needed = f"{indices[0]} to {indices[-1]}"
            yield Refusal(
                Kind.GPUS, f"the {path.value} engine needs the GPUs {needed}, but there are {len(present)}"
            )
    if wishes.placement is Placement.SEPARATE and set(own[0][1]) & set(own[1][1]):
        yield Refusal(
            Kind.GPUS, "with placement separate both engines have GPUs in common; see launch.base_gpu"
        )
    if wishes.placement is Placement.SHARED and own[0][1] != own[1][1]:
        yield Refusal(Kind.GPUS, "with placement shared both engines have the same GPUs; see launch.base_gpu")


def gpu_indices(wishes: Wishes, profile: SpeculationProfile) -> tuple[tuple[Path, tuple[int, ...]], ...]:
    """Which GPUs each engine gets, in the order in which they start."""
    first = wishes.base_gpu.speculative or 0
    own = tuple(range(first, first + wishes.tp))
    if wishes.placement is Placement.SINGLE:
        path = Path.BASELINE if profile.algorithm is None else Path.SPECULATIVE
        return ((path, own),)
    follows = first + wishes.tp if wishes.placement is Placement.SEPARATE else first
    second = follows if wishes.base_gpu.baseline is None else wishes.base_gpu.baseline
    both = {Path.SPECULATIVE: own, Path.BASELINE: tuple(range(second, second + wishes.tp))}
    return ((wishes.first, both[wishes.first]), (wishes.first.other, both[wishes.first.other]))


def _policy(wishes: Wishes) -> Iterator[Refusal]:
    high, running = wishes.policy_high, wishes.concurrency.speculative
    if wishes.placement is not Placement.SINGLE and high is not None and high > running:
        yield Refusal(
            Kind.LIMITS,
            f"policy.high {high} is above the speculative engine's --max-running-requests {running}: "
            f"requests would queue in the engine before the router switches; allowed: high up to {running}, "
            f"or launch.concurrency.speculative from {high}",
        )


def _flags(profile: SpeculationProfile, hardware: HardwareProfile, wishes: Wishes) -> Iterator[Refusal]:
    for path in Path:
        extras = wishes.extras[path]
        words = [arg.split("=", 1)[0] for arg in extras.args if arg.startswith("--")]
        for word in words:
            if word in PLANNED_FLAGS:
                yield Refusal(
                    Kind.FLAGS,
                    f"launch.engines.{path.value}.args: {word} is set by the plan; use {PLANNED_FLAGS[word]}",
                )
        for name in sorted(PLANNED_ENV & extras.env.keys()):
            yield Refusal(Kind.FLAGS, f"launch.engines.{path.value}.env: {name} is set by the plan")
        for refused in hardware.refused:
            if refused.hits((*profile.args, *extras.args), extras.env):
                yield Refusal(
                    Kind.FLAGS,
                    f"launch.engines.{path.value}: {refused.match} on {hardware.name}: {refused.reason}",
                )
