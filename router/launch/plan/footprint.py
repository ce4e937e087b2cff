"""Memory of one engine on one GPU, from SGLang 0.5.16-0.5.23: what is taken when, and by what it is bounded.

An engine takes context, weights and draft; then sizes its KV pool; then takes the rest, which nothing caps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from router.core.words import Path
from router.launch.plan.profile import SpeculationProfile
from router.launch.plan.shapes import GIB, MIB, ModelShape
from router.launch.plan.wishes import KvDtype, Wishes

WEIGHT_OVERHEAD = Fraction(104, 100)
"""Loaded over stored: replicated projections, norms, routers. Measured 1.035 on a 433 GB model at tp 8."""

ACTIVATION_PER_TOKEN = 3 * MIB // 2
GRAPH_PER_REQUEST = 2 * MIB
PREFILL_GRAPHS = 3 * GIB // 2
FEATURE_CACHE = 1124 * MIB
TABLE_PADDING = 8

LARGE_GPU = 60 * GIB
LEAST_HEADROOM = {Path.SPECULATIVE: 8 * GIB, Path.BASELINE: 6 * GIB}
"""On a GPU above LARGE_GPU, where SGLang's own default keeps 10 GiB."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What an engine takes besides its KV pool, in bytes per GPU.

    `features` is charged to the pool before it is sized; graphs, activations, table and workspace come out of
    what `--mem-fraction-static` leaves.
    """

    context: int
    weights: int
    draft: int
    features: int
    graphs: int
    activations: int
    table: int
    workspace: int

    @property
    def static(self) -> int:
        """Taken before the pool is sized, context excepted."""
        return self.weights + self.draft + self.features

    @property
    def headroom(self) -> int:
        """Taken after the pool is sized, apart from a draft pool that SGLang underestimates."""
        return self.graphs + self.activations + self.table + self.workspace

    @property
    def total(self) -> int:
        """All of it."""
        return self.context + self.static + self.headroom


@dataclass(frozen=True, slots=True)
class Cell:
    """Bytes of one token on one GPU.

    Attributes:
        budget: what SGLang divides the pool by: the target's layers and, for EAGLE, its guess of the draft's.
        excess: what the draft's own pool takes beyond that guess, out of the headroom. Where it takes less,
            nothing is counted on: the pool is still divided by the guess.
    """

    budget: int
    excess: int

    @property
    def total(self) -> int:
        """What a token really costs."""
        return self.budget + self.excess

    def pool_of(self, kv_bytes: int) -> int:
        """The part of KV memory that SGLang may divide into tokens; the rest is the draft pool's excess."""
        return kv_bytes * self.budget // self.total


def weights_per_gpu(weight_bytes: int, tp: int) -> int:
    """Bytes of a checkpoint on each of tp GPUs, once loaded."""
    return -int(-weight_bytes * WEIGHT_OVERHEAD // tp)


def element_bytes(model: ModelShape, dtype: KvDtype) -> int:
    """Bytes of one KV element."""
    return 1 if dtype == "fp8_e4m3" or (dtype == "auto" and model.fp8_kv) else 2


def layers_cell(shape: ModelShape, tp: int, element: int) -> int:
    """KV bytes of one token of one model on one GPU."""
    return shape.layers * shape.attention.layer_bytes(tp, element)


def cell(model: ModelShape, draft: ModelShape | None, wishes: Wishes) -> Cell:
    """Bytes per token of an engine. SGLang assumes that a draft layer is as large as one of the target's."""
    element = element_bytes(model, wishes.kv_dtype)
    target = wishes.kv_cell or layers_cell(model, wishes.tp, element)
    if draft is None:
        return Cell(target, 0)
    guess = target * draft.layers // model.layers
    return Cell(target + guess, max(0, layers_cell(draft, wishes.tp, element) - guess))


def fixed(
    path: Path,
    model: ModelShape,
    draft: ModelShape | None,
    profile: SpeculationProfile,
    wishes: Wishes,
    running: int,
    gpu_total: int,
) -> Fixed:
    """Everything but the pool, for an engine of `running` requests at most."""
    graphs = GRAPH_PER_REQUEST * running + PREFILL_GRAPHS
    if profile.algorithm is not None:
        graphs *= 2 * profile.graph_sets
    activations = ACTIVATION_PER_TOKEN * wishes.chunked_prefill
    table = 4 * (running + 1) * (wishes.context + TABLE_PADDING)
    floor = LEAST_HEADROOM[path] if gpu_total > LARGE_GPU else 0
    return Fixed(
        context=wishes.reserves.context,
        weights=weights_per_gpu(model.weight_bytes, wishes.tp),
        draft=weights_per_gpu(draft.weight_bytes, wishes.tp) if draft else 0,
        features=FEATURE_CACHE if model.multimodal and _keeps_features(wishes.extras[path].args) else 0,
        graphs=graphs,
        activations=activations,
        table=table,
        workspace=max(wishes.reserves.workspace, floor - graphs - activations - table),
    )


def _keeps_features(args: Sequence[str]) -> bool:
    text = " ".join(args).replace("=", " ")
    return any(f"--mm-feature-transport {way}" in text for way in ("cuda_ipc", "cuda_vmm"))
