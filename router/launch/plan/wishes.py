"""What an operator wants from a pair of engines. Sizes are bytes, lengths are tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from router.core.words import Path, Placement
from router.launch.plan.shapes import GIB, MIB

KvDtype = Literal["auto", "bf16", "fp8_e4m3"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PerPath(Generic[T]):
    """One value for each path."""

    speculative: T
    baseline: T

    def __getitem__(self, path: Path) -> T:
        return self.speculative if path is Path.SPECULATIVE else self.baseline


@dataclass(frozen=True, slots=True)
class Reserves:
    """Memory per GPU that is kept for what cannot be computed exactly.

    Attributes:
        context: CUDA context and NCCL of one engine.
        workspace: attention workspaces, sampler and compiled kernels of one engine.
        spare: what stays free when both engines have taken everything that is planned.
    """

    context: int = 1536 * MIB
    workspace: int = GIB
    spare: int = GIB


@dataclass(frozen=True, slots=True)
class EngineExtras:
    """What an operator adds to one engine's command."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wishes:
    """How the engines shall run.

    Attributes:
        tp: GPUs per engine.
        base_gpu: index of the first GPU of each engine; None is 0, or with placement separate the GPUs
            after the speculative engine's.
        context: longest request, prompt and answer together.
        concurrency: running requests at most.
        kv_share: the speculative engine's share of the KV memory; None divides it by concurrency.
        kv_cell: bytes of one token of the target on one GPU, as an engine reported it (`memory_usage.kvcache`
            over `max_total_num_tokens`); what a model that is measured needs for token counts.
        chunked_prefill: tokens of one prefill step; activations grow with it.
        first: which engine is started first where both share GPUs.
        policy_high: the router's upper watermark, or None where no policy decides.
        allow_uneven: start even if GPUs differ in free memory by more than SGLang accepts.
        version: the SGLang release whose rules hold.
    """

    tp: int
    placement: Placement = Placement.SHARED
    base_gpu: PerPath[int | None] = PerPath(None, None)
    context: int = 32768
    concurrency: PerPath[int] = PerPath(32, 128)
    kv_share: float | None = None
    kv_dtype: KvDtype = "auto"
    kv_cell: int | None = None
    chunked_prefill: int = 2048
    max_queued: int = 512
    first: Path = Path.SPECULATIVE
    reserves: Reserves = Reserves()
    policy_high: int | None = None
    allow_uneven: bool = False
    served_name: str | None = None
    host: str = "127.0.0.1"
    extras: PerPath[EngineExtras] = PerPath(EngineExtras(), EngineExtras())
    version: str = "0.5.23"
