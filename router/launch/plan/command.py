"""The exact command of an engine: the flags that make its memory what was planned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from router.core.words import Path, Placement
from router.launch.plan.footprint import element_bytes
from router.launch.plan.profile import SpeculationProfile
from router.launch.plan.result import EnginePlan, Plan, SecondStart
from router.launch.plan.shapes import Mla

KEEP_ALIVE_SECONDS = 75
"""Above the router's own idle expiry; SGLang's default of 5 s races with it."""

ADAPTIVE_FILE = "adaptive.json"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where an engine listens: HTTP, and the rendezvous of its ranks."""

    http: int
    nccl: int


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start. `files` are written first; env is added to the launcher's own."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str]


def engine_command(
    plan: Plan,
    path: Path,
    fraction: float | SecondStart | None,
    ports: Ports,
    python: str,
    folder: str = ".",
) -> Command:
    """The command of one engine of a plan.

    Args:
        fraction: what `second_fraction` gave (its pool counts then), a number, or None for the plan's own.
        python: the interpreter that has sglang.
        folder: where files that the command names are written.
    """
    engine = plan.engine(path)
    tokens, share = engine.tokens, engine.fraction
    if isinstance(fraction, SecondStart):
        tokens, share = fraction.max_total_tokens, fraction.fraction
    elif fraction is not None:
        share = fraction
    adaptive = f"{folder}/{ADAPTIVE_FILE}" if engine.profile.tiers else None
    argv = (
        *(python, "-m", "sglang.launch_server"),
        *_identity(plan, engine, ports),
        *_limits(plan, engine, share, tokens),
        *_backends(plan),
        *_speculation(plan, engine.profile, adaptive),
        *plan.hardware.args,
        *plan.wishes.extras[path].args,
    )
    files = {adaptive: adaptive_text(engine.profile)} if adaptive else {}
    return Command(argv, _env(plan, engine), files)


def _identity(plan: Plan, engine: EnginePlan, ports: Ports) -> tuple[str, ...]:
    wishes = plan.wishes
    return (
        *("--model-path", plan.model.path),
        *("--served-model-name", wishes.served_name or plan.model.name),
        *("--host", wishes.host, "--port", str(ports.http), "--nccl-port", str(ports.nccl)),
        *("--tp-size", str(wishes.tp), "--base-gpu-id", str(engine.gpus[0])),
        # Both engines have the same model name, so without a label their series are one.
        *("--enable-metrics", "--extra-metric-labels", json.dumps({"path": engine.path.value})),
        "--sleep-on-idle",
    )


def _limits(plan: Plan, engine: EnginePlan, fraction: float, tokens: int | None) -> tuple[str, ...]:
    wishes = plan.wishes
    return (
        *("--context-length", str(wishes.context)),
        *("--max-running-requests", str(engine.running)),
        *("--max-queued-requests", str(wishes.max_queued)),
        *("--mem-fraction-static", f"{fraction:.4f}"),
        *(("--max-total-tokens", str(tokens)) if tokens is not None else ()),
        *("--chunked-prefill-size", str(wishes.chunked_prefill)),
        *("--cuda-graph-max-bs-decode", str(engine.running)),
    )


def _backends(plan: Plan) -> tuple[str, ...]:
    dtype = plan.wishes.kv_dtype
    if dtype == "auto" and element_bytes(plan.model, dtype) == 1:
        dtype = "fp8_e4m3"
    mla = isinstance(plan.model.attention, Mla)
    attention = plan.hardware.attention_mla if mla else plan.hardware.attention_gqa
    return (
        *(("--kv-cache-dtype", dtype) if dtype != "auto" else ()),
        *(("--attention-backend", attention) if attention else ()),
    )


def _speculation(plan: Plan, profile: SpeculationProfile, adaptive: str | None) -> tuple[str, ...]:
    if profile.algorithm is None:
        return ()
    settings = (
        ("--speculative-num-steps", profile.steps),
        ("--speculative-eagle-topk", profile.topk),
        ("--speculative-num-draft-tokens", profile.draft_tokens),
    )
    draft = plan.draft.path if plan.draft and profile.draft_model else None
    return (
        *("--speculative-algorithm", profile.algorithm),
        *(("--speculative-draft-model-path", draft) if draft else ()),
        *(word for flag, value in settings if value is not None for word in (flag, str(value))),
        *(("--speculative-adaptive", "--speculative-adaptive-config", adaptive) if adaptive else ()),
        *profile.args,
    )


def adaptive_text(profile: SpeculationProfile) -> str:
    """The file that `--speculative-adaptive-config` names."""
    tiers = {str(tier.batch): {"candidate_steps": list(tier.steps)} for tier in profile.tiers}
    return json.dumps(tiers, indent=2) + "\n"


def _env(plan: Plan, engine: EnginePlan) -> dict[str, str]:
    env = {
        # Without it CUDA numbers the fastest GPU first, and a plan's indices are the driver's.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "SGLANG_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_SECONDS),
        **plan.hardware.env,
    }
    if plan.placement is not Placement.SHARED:
        env |= plan.hardware.env_alone
    if plan.wishes.allow_uneven:
        env["SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK"] = "0"
    if plan.draft and engine.profile.draft_model and plan.wishes.context > plan.draft.max_context:
        env["SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"] = "1"
    return env | dict(plan.wishes.extras[engine.path].env)
